"""Runs the code of python tasks (language 11.3), one process for each run.

`serve <socket>`: a zygote that listens on a unix socket and forks for each connection a monitor, which forks a runner.
The runner executes the code in its own process group and writes its answer to a pipe; the monitor reads that pipe and
the runner's output, kills the group when the run ends, when it is told to or when its connection closes, and sends one
frame. Forking an interpreter that is already up takes a few milliseconds and shares nothing that can be changed.

`once`: the same run in a fresh interpreter, request on standard input, answer on file descriptor 3. Used where there is
no fork, for another interpreter, and for environments that an interpreter reads only at its start.

Frames: 8 bytes length, big endian, then JSON. The monitor's answer is a JSON head line followed by three blobs.
"""

import ast
import builtins
import datetime
import importlib
import inspect
import json
import keyword
import linecache
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
import uuid

STREAM_MAX = 64 * 1024
ANSWER_MAX = 64 * 1024 * 1024
DEPTH_MAX = 64
EXACT_MAX = 2**53 - 1
TRACEBACK_MAX = 16 * 1024


class Refused(Exception):
    """The result cannot be made JSON."""


# ---- one run ---------------------------------------------------------------------------------------------------------


def execute(request):
    """Runs a request and returns the answer: {"value"}, {"none": true} or {"error": {...}}."""
    phase = "setup"
    try:
        if request.get("cwd"):
            os.chdir(request["cwd"])
            sys.path.insert(0, "")
        source = request["code"]
        inputs = request["input"]
        space = namespace(request)
        phase = "compile"
        linecache.cache["<task>"] = (len(source), None, source.splitlines(True), "<task>")  # for tracebacks
        tree = ast.parse(source, "<task>", "exec")
        phase = "libs"
        for alias, module, name in request["libs"]:
            space[alias] = library(module, name)
        phase = "compile"
        value = NOTHING
        if has_bare_return(tree):
            code = compile(as_function(tree), "<task>", "exec", dont_inherit=True)
            phase = "run"
            exec(code, space)
            value = space.pop(BODY)()
        else:
            code = compile(tree, "<task>", "exec", dont_inherit=True)
            phase = "run"
            exec(code, space)
        value = choose(value, space, inputs, tree)
        phase = "result"
        return {"none": True} if value is None else {"value": plain(value, 0)}
    except Refused as problem:
        return {"error": {"classes": ["ResultError"], "message": str(problem), "traceback": "", "phase": phase}}
    except BaseException as problem:  # SystemExit and KeyboardInterrupt are failures of the code too
        return {"error": describe(problem, phase)}


NOTHING = None
BODY = "__task_body__"


def namespace(request):
    """The globals of the code: modules, maps of all inputs, then every input whose key is an identifier."""
    inputs = request["input"]
    space = {
        "__name__": "__main__",
        "__builtins__": builtins,
        "os": os,
        "sys": sys,
        "json": json,
        "datetime": datetime,
        "uuid": uuid,
        "args": inputs,
        "input_data": inputs,
    }
    if request.get("context") is not None:
        space["context"] = request["context"]
    for key, value in inputs.items():
        if key.isidentifier() and not keyword.iskeyword(key) and not key.startswith("__"):
            space[key] = value
    return space


def library(module, name):
    found = importlib.import_module(module)
    if name is None:
        return found
    if hasattr(found, name):
        return getattr(found, name)
    return importlib.import_module(module + "." + name)


def has_bare_return(tree):
    """True when a `return` stands outside every function."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def as_function(tree):
    """Makes the code the body of a function whose variables stay globals.

    Without that, assigning to an input (`n = n + 1`) would make it an unbound local. Names that inner functions
    declare nonlocal have to stay local.
    """
    leading = []
    body = list(tree.body)
    while body and isinstance(body[0], ast.ImportFrom) and body[0].module == "__future__":
        leading.append(body.pop(0))
    kept = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Nonlocal):
            kept.update(node.names)
    draft = compile(wrapped(leading, body), "<task>", "exec", dont_inherit=True)
    function = next(each for each in draft.co_consts if inspect.iscode(each) and each.co_name == BODY)
    names = sorted((set(function.co_varnames) | set(function.co_cellvars)) - kept)
    if names:
        first = body[0]
        declared = ast.Global(names=names, lineno=first.lineno, col_offset=0, end_lineno=first.lineno, end_col_offset=0)
        body = [declared, *body]
    return wrapped(leading, body)


def wrapped(leading, body):
    shell = ast.parse("def " + BODY + "(): pass")
    shell.body[0].body = body
    shell.body = [*leading, *shell.body]
    return ast.fix_missing_locations(shell)


def choose(returned, space, inputs, tree):
    """The first that is not None: the returned value, the variable `result`, the value of main()."""
    if returned is not None:
        return returned
    main = space.get("main")
    result = space.get("result")
    if result is not None and not (callable(main) and is_untouched_input("result", result, inputs, tree)):
        return result
    if not callable(main):
        return None
    return call_main(main, space, inputs)


def is_untouched_input(name, value, inputs, tree):
    if name not in inputs or value is not inputs[name]:
        return False
    return not any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load) for node in ast.walk(tree)
    )


def call_main(main, space, inputs):
    """Calls main with the inputs it declares, all of them when it takes **kwargs; awaits what is awaitable."""
    positional, named, rest = [], {}, False
    for parameter in inspect.signature(main).parameters.values():
        name = parameter.name
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = True
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if name in inputs:
            given = inputs[name]
        elif name in ("args", "input_data", "context") and name in space and parameter.default is parameter.empty:
            given = space[name]
        else:
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(given)
        else:
            named[name] = given
    if rest:
        named.update({key: value for key, value in inputs.items() if key not in named})
    value = main(*positional, **named)
    if inspect.isawaitable(value):
        import asyncio

        async def wait():
            return await value

        return asyncio.run(wait())
    return value


def plain(value, depth):
    """JSON as language 11.3.4 makes it; whole numbers a double cannot hold become their decimal text."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int(value)
        return number if -EXACT_MAX <= number <= EXACT_MAX else decimal_text(number)
    if isinstance(value, float):
        number = float(value)
        return number if number - number == 0 else None
    if depth >= DEPTH_MAX:
        if isinstance(value, (dict, list, tuple, set, frozenset)):
            raise Refused("the result is nested deeper than %d levels" % DEPTH_MAX)
    if isinstance(value, dict):
        return {key_text(key): plain(member, depth + 1) for key, member in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(member, depth + 1) for member in value]
    return str(value)


def key_text(key):
    if isinstance(key, str):
        return key
    if key is None or key is True or key is False:
        return json.dumps(key)
    return decimal_text(int(key)) if isinstance(key, int) else str(key)


def decimal_text(number):
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    return str(number)


def describe(problem, phase):
    classes = [each.__name__ for each in type(problem).__mro__]
    try:
        message = str(problem)
    except BaseException:
        message = "(the exception cannot be printed)"
    if isinstance(problem, SystemExit):
        message = "the code called sys.exit(%s)" % message
    if phase == "compile" and "SyntaxError" not in classes:
        classes.insert(0, "SyntaxError")
    try:
        # The first frames are this file's; readers want theirs.
        trace = problem.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != "<task>":
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(problem), problem, trace))
    except BaseException:
        text = ""
    return {"classes": classes[:20], "message": message[:8192], "traceback": text[-TRACEBACK_MAX:], "phase": phase}


def answer_bytes(request):
    """The answer as JSON text; never raises."""
    answer = execute(request)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    try:
        data = json.dumps(answer, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    except BaseException as problem:
        data = json.dumps({"error": describe(problem, "result")}).encode("ascii")
    if len(data) > ANSWER_MAX:
        problem = Refused("the result has %d bytes, more than %d" % (len(data), ANSWER_MAX))
        data = json.dumps({"error": describe(problem, "result")}).encode("ascii")
    return data


def open_streams():
    """Text streams over the (redirected) descriptors 1 and 2 that can print anything."""
    sys.stdin = open(0, "r", encoding="utf-8", errors="replace", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def write_all(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view[:65536]) :]


# ---- the zygote and its monitors -------------------------------------------------------------------------------------


def serve(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(512)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # monitors are reaped by the kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides when this process ends
    import asyncio  # noqa: F401  paid once here instead of in every run that needs it
    import gc

    gc.collect()
    gc.freeze()
    os.write(1, b"ready\n")
    while True:
        readable, _, _ = select.select([listener, 0], [], [])
        if 0 in readable:  # the worker has closed our input, or is gone
            os.unlink(path)
            os.rmdir(os.path.dirname(path))
            return
        connection, _ = listener.accept()
        try:
            child = os.fork()
        except OSError as problem:
            send(connection, {"lost": "a process cannot be forked: %s" % problem.strerror}, b"", b"", b"")
            connection.close()
            continue
        if child == 0:
            code = 1
            try:
                listener.close()
                monitor(connection)
                code = 0
            finally:
                os._exit(code)
        connection.close()


def monitor(connection):
    """Starts the runner of one request and reports its end. Leaves no process of the group behind."""
    request = receive(connection)
    if request is None:
        return
    wake_out, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
    pipes = [os.pipe() for _ in range(3)]  # answer, stdout, stderr
    runner = os.fork()
    if runner == 0:
        try:
            become_runner(connection, pipes, (wake_out, wake_in), request)
        finally:
            os._exit(70)
    try:
        os.setpgid(runner, runner)
    except OSError:
        pass  # the runner has done it itself
    request = None
    sinks = {}
    for (reader, writer), limit in zip(pipes, (ANSWER_MAX + 1024, STREAM_MAX, STREAM_MAX)):
        os.close(writer)
        os.set_blocking(reader, False)
        sinks[reader] = (bytearray(), limit)
    status = watch(runner, connection, wake_out, sinks)
    kill_group(runner, reaped=status is not None)
    for reader in list(sinks):
        drain(reader, sinks[reader])
    if status is None:
        status = os.waitpid(runner, 0)[1]
        head = {"killed": True}
    elif os.WIFSIGNALED(status):
        head = {"signal": os.WTERMSIG(status)}
    else:
        head = {"exit": os.WEXITSTATUS(status)}
    answer, stdout, stderr = (bytes(sinks[reader][0]) for reader, _ in pipes)
    send(connection, head, answer, stdout, stderr)


def watch(runner, connection, wake, sinks):
    """Reads until the runner has ended and returns its status, or None when it is to be killed."""
    open_readers = set(sinks)
    while True:
        readable, _, _ = select.select([connection, wake, *open_readers], [], [])
        for reader in readable:
            if reader in open_readers and drain(reader, sinks[reader]):
                open_readers.discard(reader)
        if connection in readable:
            connection.recv(1)  # a byte means kill, the end means nobody waits; left unread it would reset the answer
            return None
        if wake in readable:
            os.read(wake, 4096)
            found, status = os.waitpid(runner, os.WNOHANG)
            if found == runner:
                return status


def drain(reader, sink):
    """Moves what is there into the sink, dropping what is above its limit; True at the end of the stream."""
    kept, limit = sink
    for _ in range(64):
        try:
            chunk = os.read(reader, 65536)
        except BlockingIOError:
            return False
        except OSError:
            return True
        if not chunk:
            return True
        kept += chunk[: max(0, limit - len(kept))]
    return False


def kill_group(runner, reaped):
    """Kills what the runner started and left in its group and, unless it has ended, the runner itself."""
    for kill in (os.killpg, os.killpg) if reaped else (os.killpg, os.kill):
        try:
            kill(runner, signal.SIGKILL)
        except OSError:
            pass


def become_runner(connection, pipes, wake, request):
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    connection.close()
    for descriptor in wake:
        os.close(descriptor)
    answer = pipes[0][1]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(pipes[1][1], 1)
    os.dup2(pipes[2][1], 2)
    for reader, writer in pipes:
        os.close(reader)
        if writer != answer:
            os.close(writer)
    os.environ.clear()
    os.environ.update(request["env"])
    if hasattr(time, "tzset"):
        time.tzset()
    sys.argv = ["<task>"]
    open_streams()
    write_all(answer, answer_bytes(request))
    os._exit(0)


def receive(connection):
    head = read_exactly(connection, 8)
    if head is None:
        return None
    body = read_exactly(connection, struct.unpack(">Q", head)[0])
    return None if body is None else json.loads(body)


def read_exactly(connection, size):
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(min(size - len(data), 1 << 20))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def send(connection, head, answer, stdout, stderr):
    head = dict(head, sizes=[len(answer), len(stdout), len(stderr)])
    try:
        connection.sendall(json.dumps(head).encode("ascii") + b"\n" + answer + stdout + stderr)
    except OSError:
        pass  # nobody waits any more


# ---- one run in a fresh interpreter ----------------------------------------------------------------------------------


def once():
    request = json.loads(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.set_inheritable(3, False)
    sys.argv = ["<task>"]
    open_streams()
    write_all(3, answer_bytes(request))
    os._exit(0)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file is no place for a task to import from
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        once()
