"""Scripts of processes: what they see and leave, in both languages, and the limits that hold (section 10)."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import msgspec
import pytest
import quickjs  # type: ignore[import-untyped]

import narval
from narval.core.errors import ActionError
from narval.system.confinement import Confinement, abi
from narval.system.scripts.interpreters import MOST_EFFECTS, Script, ScriptAnswer, monty_program, run

ROOT = Path(narval.__file__).parent.parent

PROCESS = {"run": 9, "name": "shop.order", "state": "executing", "environment": {"customer": "Pat"}}
START = {
    "id": 3, "complete": True, "node": {"name": "start", "type": "node"}, "environment": {}, "parents": [],
    "sets": [], "process": PROCESS,
}  # fmt: skip
TOKEN = {
    "id": 5,
    "complete": False,
    "node": {"name": "next", "type": "script", "external": "one", "external_environment": {"foo": "hello"}},
    "environment": {"sum": "7"},
    "parents": [3],
    "sets": [
        {
            "name": "approvals", "index": 1, "max_index": 2, "level": 1,
            "environment": {"second-run": "true"}, "member": {"group": "Security"},
        }
    ],
    "process": PROCESS,
}  # fmt: skip


def done(text: str, language: str = "js", **limits: Any) -> tuple[list[dict[str, Any]], list[str], Any]:
    printed: list[str] = []
    script = Script("next", text, language, TOKEN, {"5": TOKEN, "3": START}, **limits)
    ran = run(script, printed.append)
    return ran.effects, printed, ran.value


def refusal(text: str, language: str = "js", **limits: Any) -> str:
    with pytest.raises(ActionError) as caught:
        done(text, language, **limits)
    return f"{caught.value.kind}: {caught.value}"


# --- what the manual and its examples do ------------------------------------------------------------------


def test_the_printed_script_says_hello() -> None:
    _, printed, _ = done(
        'java.lang.System.out.println( "Hello from node: " + token.node.name );'
        'java.lang.System.out.print( "token: " ); java.lang.System.out.println( token );'
    )
    assert printed == ["Hello from node: next", "token: [token 5 on next]"]


def test_attributes_are_read_from_every_environment() -> None:
    _, printed, _ = done(
        """
        var env = token.getNode().getExternalEnv();
        System.out.println( "foo: " + env.getAttribute( "foo" ) );
        println( token.getEnv().getAttribute( "sum", java.lang.Integer ) + 1 );
        println( token.fullEnv.getAttribute( "customer" ) );
        println( token.process.env.getAttribute( "nobody" ) );
        println( token.getTokenSetMember( "approvals" ).getEnv().getAttribute( "group" ) );
        println( token.getTokenSet( "approvals" ).maxMemberIndex );
        """
    )
    assert printed == ["foo: hello", "8", "Pat", "null", "Security", "2"]


def test_the_second_run_of_the_approvals_completes() -> None:
    effects, printed, _ = done(
        """
        var setEnv = token.getTokenSet( "approvals" ).getEnv();
        var type = java.lang.Class.forName( "java.lang.Boolean" );
        var second = setEnv.getAttribute( "second-run", type, java.lang.Boolean.FALSE );
        println( "Second run: " + second );
        if ( second.booleanValue() ) { engine.complete( token, null ); }
        """
    )
    assert printed == ["Second run: true"]
    assert effects == [{"do": "complete", "arcs": [""], "asynchronous": False}]


def test_a_script_writes_and_goes_back_in_order() -> None:
    effects, _, _ = done(
        """
        token.process.env.setAttribute( "again", true );
        token.env.setAttribute( "sum", 8 );
        token.getTokenSet( "approvals" ).env.setAttribute( "x", null );
        if ( token.env.getAttribute( "sum" ) != "8" ) { throw new Error( "not seen" ); }
        engine.backtrack( token.parentTokens.get( 0 ).parentToken );
        """
    )
    assert effects == [
        {"do": "set", "of": "process", "name": "again", "value": "true"},
        {"do": "set", "of": "token", "name": "sum", "value": "8"},
        {"do": "set", "of": "set", "set": "approvals", "name": "x", "value": None},
        {"do": "backtrack", "token": 3},
    ]


def test_a_script_completes_with_a_new_token_set() -> None:
    effects, _, _ = done(
        'engine.completeWithNewTokenSet( token, "go", "ts", 2, false, {deadline: 3}, {group: ["a", "b"]} );'
    )
    assert effects == [
        {
            "do": "complete-with-new-token-set", "arcs": ["go"], "name": "ts", "count": 2,
            "asynchronous": False, "environment": {"deadline": "3"}, "members": {"group": ["a", "b"]},
        }
    ]  # fmt: skip


def test_python_sees_a_token_as_node_types_do() -> None:
    effects, printed, value = done(
        "print(token.node.name, token.environment.get('customer'))\n"
        "token.set('sum', token.environment.get('sum', 0, int) + 1)\n"
        "token.sets['approvals'].member.set('seen', True)\n"
        "token.complete('yes')\n"
        "token.id == 5\n",
        "python",
    )
    assert printed == ["next Pat"]
    assert value is True
    assert effects == [
        {"do": "set", "of": "token", "name": "sum", "value": "8"},
        {"do": "set", "of": "member", "set": "approvals", "name": "seen", "value": "true"},
        {"do": "complete", "arcs": ["yes"], "asynchronous": False},
    ]


# --- slips ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "language", "wanted"),
    [
        (
            "\n\nfoo.bar()",
            "js",
            "script-failed: the script of node 'next': line 3: ReferenceError: foo is not",
        ),
        (
            "var a = ;",
            "js",
            "script-failed: the script of node 'next': line 1: SyntaxError: unexpected token",
        ),
        (
            "token.env.setAttribute('a', {})",
            "js",
            "script-failed: the script of node 'next': line 1: Error: an",
        ),
        (
            "token.node.externalEnv.setAttribute('a', 1)",
            "js",
            "script-failed: the script of node 'next': line 1",
        ),
        (
            "engine.complete(token.parentTokens.get(0).parentToken)",
            "js",
            "script-failed: the script of node 'nex",
        ),
        (
            "token.parentTokens.get(1)",
            "js",
            "script-failed: the script of node 'next': line 1: Error: there is n",
        ),
        (
            "1",
            "ruby",
            "script-language: the script of node 'next' is in 'ruby'; there is ecmascript, javascript",
        ),
        (
            "engine.complete(token);\nengine.complete(token)",
            "js",
            "script-failed: the script of node 'next': line 2: Error: the",
        ),
        ("\nfoo", "python", "script-failed: the script of node 'next': line 2: NameError: name 'foo' is not"),
        ("a = = 1", "python", "script-failed: the script of node 'next': line 1: Expected an expression"),
    ],
)
def test_slips_are_told_with_their_line(text: str, language: str, wanted: str) -> None:
    assert refusal(text, language).startswith(wanted)


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("while (true) {}", "js"),
        ("while (true) { try { while (true) {} } catch (e) {} }", "js"),
        ("/(a+)+$/.test('a'.repeat(40) + 'b')", "js"),
        ("function g() { try { return g() } finally { g() } } g()", "js"),
        ("while True: pass", "python"),
    ],
)
def test_what_loops_is_ended_in_time(text: str, language: str) -> None:
    assert "script-timeout: the script of node 'next': " in refusal(text, language, time=0.2)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("var a = []; while (true) a.push('x' + a.length)", "js"),
        ("'x'.repeat(1e9)", "js"),
        ("new Array(4294967295).fill(0)", "js"),
        ("a = []\nwhile True: a.append('x' * 1000)", "python"),
        ("'x' * 10 ** 10", "python"),
    ],
)
def test_what_eats_memory_is_ended(text: str, language: str) -> None:
    assert refusal(text, language, memory=8 * 1024 * 1024).startswith(
        "script-memory: the script of node 'next'"
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("for (;;) println('x'.repeat(1000))", "the script prints too much"),
        ("for (;;) engine.backtrack(token)", "the script has too many effects"),
        ("function f() { return f() + 1 } f()", "Maximum call stack size exceeded"),
        ("JSON.parse('['.repeat(100000))", "Maximum call stack size exceeded"),
        ("Array.prototype.push = null; engine.backtrack(token)", "TypeError"),
        (
            'JSON.stringify = function () { return \'{"effects": [3], "printed": []}\' }',
            "effects that are none",
        ),
        ("JSON.stringify = function () { return '[' }", "what it left cannot be read"),
        ("token.env.setAttribute('a', String.fromCharCode(0xd800))", "effects that are none"),
    ],
)
def test_what_is_hostile_is_refused(text: str, wanted: str) -> None:
    assert wanted in refusal(text)


LANGUAGE = """
    AggregateError Array ArrayBuffer AsyncDisposableStack Atomics BigInt BigInt64Array BigUint64Array Boolean
    DOMException DataView Date DisposableStack Error EvalError FinalizationRegistry Float16Array Float32Array
    Float64Array Function Infinity Int16Array Int32Array Int8Array InternalError Iterator JSON Map Math NaN
    Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set SharedArrayBuffer String
    SuppressedError Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array
    Uint8ClampedArray WeakMap WeakRef WeakSet atob btoa decodeURI decodeURIComponent encodeURI
    encodeURIComponent escape eval globalThis isFinite isNaN parseFloat parseInt performance queueMicrotask
    undefined unescape
"""
OURS = "System console engine java print println token __narval"


def test_js_has_the_objects_of_the_language_and_ours_and_no_others() -> None:
    """Nothing of `std` and `os`, no `require`, `fetch` or `WebAssembly`, whatever the next version brings."""
    names = done("Object.getOwnPropertyNames(globalThis).join(' ')")[2].split()
    assert set(names) <= {*LANGUAGE.split(), *OURS.split()}


@pytest.mark.parametrize(
    "module", ["std", "os", "qjs:std", "/etc/passwd", "./x.js", "file:///x.js", "libc.so"]
)
def test_js_imports_nothing(module: str) -> None:
    context = quickjs.Context()
    context.eval(f"var came; import('{module}').then(m => came = m, e => came = String(e))")
    while context.execute_pending_job():
        pass
    assert "could not load module" in context.eval("came")
    assert refusal(f"import * as m from '{module}'").startswith("script-failed")


@pytest.mark.parametrize(
    "text",
    [
        "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5000)",
        "new Function('return this.std.open')()",
        "(0, eval)('os.exec')",
        "engine.complete.constructor('return std')().open",
        "token.constructor.constructor('return process')().exit()",
        "__narval.result.constructor('return require')()('fs')",
        "Object.defineProperty(globalThis, '__narval', {value: {result: () => '{}'}})",
    ],
)
def test_js_finds_no_way_out(text: str) -> None:
    assert refusal(text).startswith("script-failed")


@pytest.mark.parametrize(
    "text",
    [
        "open('/etc/passwd')",
        "open('/etc/passwd', 'w')",
        "print('x', file=open('data/x', 'w'))",
        "import os\nos.system('ls')",
        "import os\nos.listdir('/')",
        "import os\nos.environ['HOME']",
        "import os\nos.getenv('HOME')",
        "import os.path\nos.path.exists('/etc/passwd')",
        "import pathlib\npathlib.Path('/etc/passwd').read_text()",
        "import pathlib\npathlib.Path('data/x').write_text('x')",
        "import pathlib\nlist(pathlib.Path('/').iterdir())",
        "import sys\nsys.modules",
        "import sys\nsys._getframe()",
        "import asyncio\nasyncio.create_subprocess_shell('ls')",
        *(
            f"import {name}"
            for name in (
                "builtins", "ctypes", "gc", "http", "importlib", "inspect", "io", "narval", "pickle",
                "pydantic_monty", "shutil", "signal", "socket", "subprocess", "threading", "urllib",
            )
        ),
        "__import__('os')",
        "__builtins__",
        "globals()",
        "compile('1', 'x', 'eval')",
        "eval('open(\"/etc/passwd\")')",
        "exec('import subprocess')",
        "input()",
        "breakpoint()",
        "().__class__.__bases__[0].__subclasses__()",
        "getattr((), '__class__')",
        "'{0.__class__}'.format(())",
        "token.set.__globals__",
        "token.set.__func__.__code__",
        "(lambda: 0).__globals__",
        "type(token).__mro__",
        "(x for x in [1]).gi_frame",
        "try:\n  1 / 0\nexcept Exception as error:\n  error.__traceback__.tb_frame",
    ],
)  # fmt: skip
def test_python_finds_no_way_out(text: str) -> None:
    assert refusal(text, "python").startswith("script-failed")


def test_a_question_to_a_script_is_answered_within_limits_of_the_system() -> None:
    """It cannot even start the interpreter of Python where this is not among the places given to it."""
    if not abi():
        pytest.skip("this kernel has no Landlock")
    reads = ("/usr", "/lib", "/lib64", "/proc/self", sys.prefix, sys.base_prefix, str(ROOT))
    beside = (
        str(Path(monty_program()).resolve()),
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/ld-linux-aarch64.so.1",
    )
    assert asked(Confinement(reads=reads, executes=beside)) == ScriptAnswer(value=True)
    assert asked(Confinement(reads=reads)) is None


def test_a_program_of_the_name_of_the_interpreter_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "monty"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.metadata.distribution", nothing_installed)
    monty_program.cache_clear()
    try:
        assert refusal("1", "python").startswith("no-program: expected the program monty")
    finally:
        monty_program.cache_clear()


def nothing_installed(name: str) -> Any:
    raise PackageNotFoundError(name)


def asked(limits: Confinement) -> ScriptAnswer | None:
    """The answer to a question in Python, None if none was given."""
    line = [sys.executable, "-m", "narval.system.scripts.interpreters", msgspec.json.encode(limits).decode()]
    question = msgspec.msgpack.encode(Script("next", "token.id == 5", "python", TOKEN, {"5": TOKEN}))
    ran = subprocess.run(line, input=question, capture_output=True, cwd=ROOT, check=False)
    return msgspec.msgpack.decode(ran.stdout, type=ScriptAnswer) if ran.returncode == 0 else None


def test_effects_are_as_many_as_there_may_be() -> None:
    assert len(done(f"for (var i = 0; i < {MOST_EFFECTS}; i++) engine.backtrack(token)")[0]) == MOST_EFFECTS


def test_hostile_values_of_environments_are_only_text() -> None:
    hostile = {**TOKEN, "environment": {"__proto__": "x", "</script>": "\u2028'\"\\", "constructor": "y"}}
    script = Script(
        "next",
        "token.env.getAttributeNames().size() + token.env.getAttribute('</script>')"
        " + token.env.getAttribute('toString')",
        "js",
        hostile,
        {"5": hostile},
    )
    assert run(script, print).value == "3\u2028'\"\\null"
