"""The address of a browser."""

from starlette.requests import Request


def browser_address(request: Request, header: str) -> str:
    """Return the address of the connected client, or with a proxy in front of us the one in the header that the operator named."""
    if header:
        # The browser may have invented everything before the last comma.
        return request.headers.get(header, "").rpartition(",")[2].strip()
    return request.client.host if request.client else ""
