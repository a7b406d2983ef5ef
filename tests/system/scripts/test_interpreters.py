"""Scripts of processes: what they see and leave, in both languages, and the limits that hold (section 10)."""

from __future__ import annotations

from typing import Any

import pytest

from narval.core.errors import ActionError
from narval.system.scripts.interpreters import MOST_EFFECTS, Script, run

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


@pytest.mark.parametrize("name", ["std", "os", "require", "process", "scriptArgs", "fetch", "WebAssembly"])
def test_js_reaches_nothing_outside(name: str) -> None:
    assert done(f"typeof {name}")[2] == "undefined"


@pytest.mark.parametrize(
    "text",
    ["open('/etc/passwd')", "import os\nos.system('ls')", "().__class__.__bases__", "__import__('os')"],
)
def test_python_reaches_nothing_outside(text: str) -> None:
    assert refusal(text, "python").startswith("script-failed")


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
