"""The one SparkSession of this process: configured so that Spark never retries, never prints, and uses our own Python.

Spark's log goes to a file. The session stays warm between jobs; it is started anew only if a job needs more slots than
it has, or if it can run nothing any more: nothing of a job lives in the JVM. Create it before other threads exist where
you can: PySpark forks to start its JVM.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext

import runtime
from runtime.common.configuration import Configuration
from runtime.common.options import SPARK_MASTER
from runtime.execution.errors import SparkUnavailableError
from runtime.execution.session_health import ANSWER_TIMEOUT_S, STOPPED, JvmCall, kill_jvm, session_defect
from runtime.execution.spark_daemon import ZYGOTE
from runtime.execution.spark_jvm import JAVA_OPTIONS, find_java, quick_launcher, quick_options
from runtime.execution.zygote_process import ZygoteProcess

logger = logging.getLogger(__name__)

LOCAL_MASTER = re.compile(r"local(?:\[(?P<slots>\d+|\*)(?:,\s*\d+)?\])?")
MASTER_CONNECT_TIMEOUT_S = 5.0
_LONGEST_SOCKET_DIRECTORY = 60
"""Characters, so that the path of a socket in it, 43 more, is not too long for the system."""
STOP_TIMEOUT_S = 15.0
"""Time for a session to stop at the end of the process."""

#: Tidemark restarts, Spark must not; a barrier stage must neither wait for a better place nor for an old stage's end
FIXED_SETTINGS = {
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.locality.wait": "0s",
    "spark.python.worker.reuse": "false",
    "spark.barrier.sync.timeout": "60",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "30",
    "spark.excludeOnFailure.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
#: what a user may override with `spark.*` options of the job
DEFAULT_SETTINGS = {
    "spark.app.name": "Tidemark",
    "spark.ui.enabled": "false",
    "spark.python.task.killTimeout": "50ms",
    # results of actions come over sockets; with Spark's 15 s a busy machine loses them
    "spark.python.authenticate.socketTimeout": "60s",
    # one slot, one core: Polars would start a thread per core in every slot; it reads this when it is imported
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "30s",
}
#: what keeps NumPy, Arrow and Polars from starting threads when they are imported, so that a process that has them can
#: fork
FORK_SAFE_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "_RJEM_MALLOC_CONF": "background_thread:false",
}
#: of an embedded session: only this machine reaches its ports, and what has no part in it is told nothing there, and
#: sends it nothing that it reads; Spark makes a secret of its own
LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.authenticate": "true",
}
#: of the same, whose processes find this package: workers begin with everything imported
PRELOADING_SETTINGS = {
    "spark.python.daemon.module": "runtime.execution.spark_daemon",
    **{f"spark.executorEnv.{name}": value for name, value in FORK_SAFE_ENVIRONMENT.items()},
}

_lock = threading.Lock()
_context: SparkContext | None = None
_slots = 0
_zygote: ZygoteProcess | None = None
_log_file: Path | None = None


def log_file() -> Path | None:
    """Return the log file of Spark in this process; None before the first session."""
    return _log_file


def is_local(master: str) -> bool:
    """Return whether the slots of that master are processes of this machine, started by this process."""
    return LOCAL_MASTER.fullmatch(master) is not None


def acquire_context(
    configuration: Configuration, slots: int, *, plans_queries: bool = True, at_once: bool = True
) -> SparkContext:
    """Return the process's SparkContext, with room for `slots` tasks at once.

    A context that the program made itself is used as it is, as long as it can run anything; then one of ours takes its
    place, on the same master.

    Args:
        configuration: of the job.
        slots: tasks at once.
        plans_queries: whether the JVM will plan queries; one that starts for jobs without is a light one.
        at_once: whether the tasks have to run at the same time; else those of a master with fewer slots take turns.

    Raises:
        JavaMissingError: no Java was found.
        SparkUnavailableError: the master cannot be reached, or the session did not start.
    """
    global _context, _slots
    with _lock:
        active = SparkContext._active_spark_context
        master = configuration.get(SPARK_MASTER)
        if master and not at_once:
            slots = min(slots, _capacity(master, slots))
        if active is not None and (defect := session_defect(active, ANSWER_TIMEOUT_S)) is not None:
            logger.warning("restarting Spark: %s", defect)
            if active is not _context:
                master = active.master
            slots = max(slots, _slots)
            if defect != STOPPED:
                # dead, or hanging: no call into it would return
                kill_jvm(active)
            _forget(active)
            active = None
        if active is not None and active is not _context:
            return active
        if active is not None and slots <= _slots:
            return active
        if active is not None:
            active.stop()
        _context = None
        _forget_dead_jvm()
        master = master or f"local[{_with_room(slots)},1]"
        _context, _slots = _start(master, configuration, slots, plans_queries), _capacity(master, slots)
        return _context


def _forget(context: SparkContext) -> None:
    """Stop a context, as far as there is anything left to stop."""
    with warnings.catch_warnings(), suppress(Exception):
        # a dead JVM cannot be stopped in good order
        warnings.simplefilter("ignore")
        context.stop()
    SparkContext._active_spark_context = None


def _forget_dead_jvm() -> None:
    """Have PySpark start a new JVM: it knows one per process, and thinks that it still runs."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    if process is None or process.poll() is None:
        if _answers(gateway):
            return
        if process is not None:
            process.kill()
    if process is not None:
        process.wait()
        process.stdin.close()
    with suppress(Exception):
        gateway.close()
    SparkContext._gateway = SparkContext._jvm = None


def _answers(gateway: Any) -> bool:
    question = JvmCall(lambda: gateway.jvm.java.lang.System.nanoTime())
    try:
        return question.wait(ANSWER_TIMEOUT_S) and question.answer() is not None
    except (Py4JError, OSError):
        return False


def _with_room(slots: int) -> int:
    """Return the slots of an embedded session: tasks of an attempt that has just failed may hold theirs for seconds,
    and must not delay the next attempt. An unused slot costs a thread.
    """
    return max(2 * slots, os.cpu_count() or 1)


def _capacity(master: str, slots: int) -> int:
    match = LOCAL_MASTER.fullmatch(master)
    if match is None:
        return slots
    given = match["slots"] or "1"
    return (os.cpu_count() or 1) if given == "*" else int(given)


def _start(master: str, configuration: Configuration, slots: int, plans_queries: bool) -> SparkContext:
    java = find_java()
    _quieten_py4j()
    if not is_local(master):
        _check_master(master)
    elif _capacity(master, slots) < slots:
        raise SparkUnavailableError(
            f"the job needs {slots} slots at once and spark.master {master} has {_capacity(master, slots)}: "
            f"lower the parallelism or use local[{slots}]"
        )
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {**DEFAULT_SETTINGS, "spark.executorEnv.PYTHONPATH": _python_path()}
    if is_local(master):
        settings |= LOCAL_SETTINGS | PRELOADING_SETTINGS
    user = {k: v for k, v in configuration.to_dict().items() if k.startswith("spark.") and k != SPARK_MASTER.key}
    settings |= user | FIXED_SETTINGS | {"spark.cores.max": str(slots), "spark.pyspark.python": sys.executable}
    if options := quick_options(java, settings, plans_queries=plans_queries):
        settings[JAVA_OPTIONS] = options
    log = _open_log()
    try:
        with _standard_streams_to(log), quick_launcher():
            if is_local(master):
                settings |= _with_zygote(settings)
            conf = SparkConf().setMaster(master).setAll(list(settings.items()))
            context = SparkContext.getOrCreate(conf)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SparkUnavailableError(f"Spark did not start with master {master}: {first} (see {log})") from error
    atexit.register(_stop)
    if not is_local(master):
        context.addPyFile(str(_package_archive()))
    return context


def _with_zygote(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the setting by which daemons are forked from this process's zygote, which starts if there is none."""
    global _zygote
    prefix = "spark.executorEnv."
    environment = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    if settings.get("spark.python.daemon.module") != PRELOADING_SETTINGS["spark.python.daemon.module"]:
        # the user's own
        return {}
    if _zygote is not None and not (_zygote.is_alive() and _zygote.environment == environment):
        _zygote.close()
        _zygote = None
    if _zygote is None:
        try:
            _zygote = ZygoteProcess(environment)
        except OSError as error:
            # the daemon then imports the engine itself
            logger.warning("no process to fork workers from: %s", error)
            return {}
    return {f"{prefix}{ZYGOTE}": str(_zygote.socket), **_closed_sockets(_zygote.socket.parent, settings)}


def _closed_sockets(directory: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by which the JVM and Python meet in a directory that only this user may enter, not at ports.

    At a port, Spark's daemon forks a worker for whoever connects, before it asks for its secret.
    Source: Spark, pyspark.daemon.
    """
    if "spark.python.unix.domain.socket.enabled" in settings or len(str(directory)) > _LONGEST_SOCKET_DIRECTORY:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(directory)}


def _stop() -> None:
    global _context, _zygote
    context, _context = _context, None
    if context is not None:
        # no more: Python's part waits a second for its thread, which ends with the process
        with _jvm_killed_after(context, STOP_TIMEOUT_S), suppress(Exception):
            context._jsc.stop()
    if _zygote is not None:
        _zygote.close()
        _zygote = None


@contextmanager
def _jvm_killed_after(context: SparkContext, timeout_s: float) -> Iterator[None]:
    """Kill the JVM if the block takes longer: a call into one that hangs would keep this process from ending.

    A signal does it, since no thread can be started at the end of the process.
    """
    before = signal.signal(signal.SIGALRM, lambda *_: kill_jvm(context))
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _quieten_py4j() -> None:
    """Keep py4j's messages about its connections out of the logs of programs that log INFO, unless they ask for it."""
    py4j = logging.getLogger("py4j")
    if py4j.level == logging.NOTSET:
        py4j.setLevel(logging.WARNING)


def _check_master(master: str) -> None:
    """Check that the master answers: Spark itself would try for a minute and then fail without naming the address."""
    if not master.startswith("spark://"):
        return
    causes = []
    for address in master.removeprefix("spark://").split(","):
        parts = urlsplit(f"spark://{address}")
        if parts.hostname is None or parts.port is None:
            raise SparkUnavailableError(f"spark.master {master} must read spark://host:port")
        try:
            socket.create_connection((parts.hostname, parts.port), MASTER_CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            causes.append(f"{address}: {error.strerror or error}")
    raise SparkUnavailableError(f"no Spark master answers at {master} ({'; '.join(causes)})")


def _python_path() -> str:
    """Return the directories that this program imports from, so that its modules can be imported in the slots too."""
    site_packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    own = [
        str(Path(path).resolve())
        for path in sys.path
        if path not in site_packages and (not path or Path(path).is_dir())
    ]
    own.append(str(Path(runtime.__file__).resolve().parent.parent))
    return os.pathsep.join(dict.fromkeys(path for path in own if not path.startswith(sys.base_prefix)))


def _package_archive() -> Path:
    """Return a zip of this package, its data included, for executors that do not have it or have another version."""
    package = Path(runtime.__file__).resolve().parent
    archive = (
        Path(tempfile.mkdtemp(prefix="tidemark-")) / f"tidemark_runtime_{runtime.__version__.replace('.', '_')}.zip"
    )
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                target.write(path, path.relative_to(package.parent))
    atexit.register(shutil.rmtree, archive.parent, ignore_errors=True)
    return archive


def _open_log() -> Path:
    global _log_file
    home = Path(os.environ.get("TIDEMARK_HOME", ".tidemark"))
    try:
        (home / "logs").mkdir(parents=True, exist_ok=True)
        path = home / "logs" / f"spark-{os.getpid()}.log"
        path.touch()
    except OSError:
        path = Path(tempfile.gettempdir()) / f"tidemark-spark-{os.getpid()}.log"
        path.touch()
    _log_file = path.resolve()
    return _log_file


@contextmanager
def _standard_streams_to(path: Path) -> Iterator[None]:
    """Make the JVM that is started inside inherit a file as its stdout and stderr, which it keeps for life."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with path.open("ab") as target:
        os.dup2(target.fileno(), 1)
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        os.close(saved[0])
        os.close(saved[1])
