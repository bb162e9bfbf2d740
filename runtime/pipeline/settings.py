"""The settings of a pipeline as options of a job. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runtime.common import options
from runtime.common.config_options import ConfigOption, ConfigurationError
from runtime.datastream.option_notes import ignored_options, misplaced_references
from runtime.pipeline.json_schema import escaped
from runtime.pipeline.problems import Code, Problem

FIXED = frozenset(
    {options.EXECUTION_TARGET.key, options.EXECUTION_MODE.key, options.RUNTIME_MODE.key, options.PIPELINE_NAME.key}
)
"""Options that are not the pipeline's to set: where and how it runs, which is a setting, and its name."""


def options_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that settings stand for, sorted by key; those under "options" last of all."""
    made: dict[str, str] = {}
    if settings.get("parallelism") is not None:
        made[options.PARALLELISM_DEFAULT.key] = str(settings["parallelism"])
    if settings.get("max_parallelism") is not None:
        made[options.PIPELINE_MAX_PARALLELISM.key] = str(settings["max_parallelism"])
    checkpointing = settings.get("checkpointing")
    if checkpointing is not None:
        made[options.CHECKPOINTING_INTERVAL.key] = checkpointing["interval"]
        if checkpointing.get("mode", "exactly_once") != "exactly_once":
            made[options.CHECKPOINTING_MODE.key] = checkpointing["mode"].upper()
        if checkpointing.get("unaligned"):
            made[options.UNALIGNED_CHECKPOINTS.key] = "true"
        if checkpointing.get("min_pause", "0 s") != "0 s":
            made[options.CHECKPOINTING_MIN_PAUSE.key] = checkpointing["min_pause"]
    if settings.get("state_backend", "hashmap") != "hashmap":
        made[options.STATE_BACKEND.key] = settings["state_backend"]
    if settings.get("restart") is not None:
        made[options.RESTART_STRATEGY.key] = settings["restart"]["type"]
    if in_micro_batches(settings):
        made[options.EXECUTION_MODE.key] = "micro-batch"
    if settings.get("watermark_interval") is not None:
        made[options.AUTO_WATERMARK_INTERVAL.key] = settings["watermark_interval"]
    return dict(sorted(made.items())) | dict(sorted(settings.get("options", {}).items()))


def in_micro_batches(settings: Mapping[str, Any]) -> bool:
    """Return whether the pipeline is executed batch by batch."""
    return bool(settings.get("execution_mode") == "micro-batch")


def is_checkpointed(settings: Mapping[str, Any]) -> bool:
    """Return whether checkpoints are taken; each micro-batch is one."""
    return in_micro_batches(settings) or options.CHECKPOINTING_INTERVAL.key in options_of(settings)


def settings_problems(settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with settings."""
    readers = {option.key: option for option in vars(options).values() if isinstance(option, ConfigOption)}
    fields = {
        options.CHECKPOINTING_INTERVAL.key: "/settings/checkpointing/interval",
        options.CHECKPOINTING_MIN_PAUSE.key: "/settings/checkpointing/min_pause",
        options.AUTO_WATERMARK_INTERVAL.key: "/settings/watermark_interval",
    }
    given = settings.get("options", {})
    for key, text in options_of(settings).items():
        pointer = f"/settings/options/{escaped(key)}" if key in given else fields.get(key, "/settings")
        if key in FIXED:
            if key in given:
                yield Problem(Code.BAD_PARAM, f"{key} cannot be set by a pipeline", field=pointer)
        elif key in readers:
            try:
                readers[key].read(text, key)
            except ConfigurationError as error:
                yield Problem(Code.BAD_PARAM, str(error), field=pointer)
    for key, accepted in misplaced_references(given).items():
        pointer = f"/settings/options/{escaped(key)}"
        yield Problem(Code.BAD_PARAM, f"{key} has a reference that is not accepted: {accepted}", field=pointer)
    for key, reason in ignored_options(given).items():
        pointer = f"/settings/options/{escaped(key)}"
        yield Problem(Code.OPTION_IGNORED, f"{key} has no effect: {reason}", field=pointer)
