"""`runyard-worker credential`: commands that print a token for a service account's sign-in."""

from typing import Annotated

import typer

from worker.session.aws_identity import default_endpoint, sign_identity

app = typer.Typer(help="Print a token that proves who this machine is.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Print a token that proves who this machine is."""


@app.command("aws-iam", context_settings={"ignore_unknown_options": False})
def aws_iam(
    region: Annotated[str, typer.Option("--region", "-region", help="The region of STS.")] = "us-east-1",
    endpoint: Annotated[
        str, typer.Option("--endpoint", "-endpoint", help="Address of STS, if it is not the region's own.")
    ] = "",
    audience: Annotated[
        str,
        typer.Option(
            "--audience", "-audience", "--aud", "-aud", help="Whom it is meant for, as the account's trust says."
        ),
    ] = "runyard",
) -> None:
    """Sign who this machine is in AWS; a service account that trusts https://sts.amazonaws.com takes it as its proof."""
    try:
        typer.echo(sign_identity(region, (endpoint or default_endpoint(region)).rstrip("/"), audience))
    except Exception as error:
        typer.echo(f"No identity could be signed: {error}", err=True)
        raise typer.Exit(1) from error
