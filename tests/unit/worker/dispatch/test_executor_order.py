"""The settings that a runner passes to an executor, and those that it withholds."""

from worker.dispatch.base import Order, passed_variables, whole_environment
from worker.settings.load import load_settings

NEEDED = {
    "WORKER_ID": "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11",
    "SUPABASE_URL": "http://outside:1",
    "WORKER_TOKEN": "ryw_x",
}
DOCKER = {"RUNYARD_JOB_DISPATCHER_TYPE": "docker", "RUNYARD_JOB_DISPATCHER_DATA_IMAGE": "x"}


def test_engine_logging_hook_and_isolation_settings_reach_the_executor(order: Order) -> None:
    wanted = {
        "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": "/opt/tofu:/opt/pulumi",
        "RUNYARD__ENGINE__STOPGRACESECONDS": "90",
        "RUNYARD__ENGINE__PASSENVIRONMENT": "VSPHERE_*",
        "RUNYARD__ENGINE__ISOLATION__MODE": "required",
        "RUNYARD__ENGINE__ISOLATION__WAYS": "namespaces",
        "RUNYARD__ENGINE__ISOLATION__READONLYPATHS": "/srv/mirror",
        "RUNYARD__ENGINE__ISOLATION__WRITABLEPATHS": "/srv/cache",
        "RUNYARD__LOGGING__FORMAT": "json",
        "RUNYARD__LOGGING__LOGLEVEL__DEFAULT": "Warning",
        "RUNYARD__LOGGING__LOGLEVEL__worker.jobs": "Debug",
        "RUNYARD__HOOKS__TIMEOUTSECONDS": "120",
        "RUNYARD__HOOKSPREAPPROVAL__ENABLED": "true",
        "RUNYARD__JOBLOGSTREAM__BATCHSIZELIMIT": "7",
        "RUNYARD__SERVER__TIMEOUTSECONDS": "12",
    }
    runner = load_settings(environ={**NEEDED, **DOCKER, **wanted})
    executor = load_settings(environ=whole_environment(order, runner))
    for section in ("logging", "hooks", "job_log_stream"):
        assert getattr(executor, section) == getattr(runner, section)
    assert executor.engine.model_copy(update={"isolation": None}) == runner.engine.model_copy(
        update={"isolation": None}
    )
    assert executor.engine.isolation == runner.engine.isolation.model_copy(update={"mode": "auto"}), (
        "the container is enough"
    )
    assert executor.hooks_preapproval.enabled
    assert executor.server.timeout_seconds == 12


def test_variables_reach_executors_by_the_setting_alone(order: Order) -> None:
    host = {"AWS_SECRET_ACCESS_KEY": "s", "VSPHERE_PASSWORD": "v", "WORKER_TOKEN": "ryw_x"}
    assert passed_variables(load_settings(environ={**NEEDED, **DOCKER}), host) == {}, "none by accident"
    data = {"RUNYARD_JOB_DISPATCHER_DATA_PASS_ENVIRONMENT": "VSPHERE_*,AWS_*"}
    runner = load_settings(environ={**NEEDED, **DOCKER, **data})
    assert passed_variables(runner, host) == {"AWS_SECRET_ACCESS_KEY": "s", "VSPHERE_PASSWORD": "v"}
    executor = load_settings(environ=whole_environment(order, runner))
    assert executor.engine.pass_environment == ["VSPHERE_*", "AWS_*"], "and from the executor to the engine"
