"""Operators that call functions of modules, and the operators of modules (T57, section 4 of dataflows)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from inspect import signature
from typing import Any

from narval.kinds.dataflow.calls.performers.performing import FlowAnswer, Function, in_batches, only_output
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.engine.network import batches
from narval.kinds.dataflow.engine.network.requests import OperatorRequest
from narval.kinds.dataflow.language.definition import OperatorCall


def given(schema: batches.Schema, row: batches.Row) -> Any:
    """A tuple as functions take it: the single value in a stream of values, else a dict."""
    return row[0] if schema == batches.VALUE else dict(zip(schema, row, strict=True))


def batch_from(values: list[Any]) -> batches.TupleBatch:
    """A batch of what functions returned: dicts, or else values."""
    if any(isinstance(value, Mapping) for value in values):
        if not all(isinstance(value, Mapping) for value in values):
            raise batches.FlowError("wrong-values", "expected dicts or values, found both; give one of them")
        return batches.batch_of(values)
    return batches.TupleBatch(batches.VALUE, [(batches.plain(value),) for value in values])


class FunctionOperator:
    """One of apply, filter, fold, map, makestream, partition, and formatrelation with a function."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._code = tools.code
        name = str(request.arguments["fun"])
        function = self._code.find(f"function:{name}")
        if function is None:
            raise batches.FlowError("no-function", f"no module declares the function {name} (@function)")
        self._function: Function = function
        self._name = request.call.operator.name
        self._result: Any = request.arguments.get("initial")

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Call the function for the tuples of a request."""
        if self._name == "makestream":
            while (value := await self._code.call(self._function)) is not None:
                yield FlowAnswer(batch_from([value]))
        elif request.phase == "eos":
            if self._name == "fold":
                yield FlowAnswer(batch_from([self._result]))
        elif request.batch is not None:
            schema, rows, relation = request.batch
            results = await self._results([given(schema, row) for row in rows])
            for answer in self._answers(request, schema, rows, results):
                yield answer._replace(batch=answer.batch._replace(relation=relation))

    async def _results(self, values: list[Any]) -> list[Any]:
        if self._name == "fold":
            for value in values:
                self._result = await self._code.call(self._function, value, self._result)
            return []
        return await self._code.each(self._function, values)

    def _answers(
        self, request: OperatorRequest, schema: batches.Schema, rows: list[batches.Row], results: list[Any]
    ) -> list[FlowAnswer]:
        if self._name in ("map", "formatrelation"):
            made = [value for value in results if value is not None]
            return [FlowAnswer(batch_from(made))] if made else []
        if self._name == "filter":
            passing = [row for row, is_kept in zip(rows, results, strict=True) if is_kept]
            return [FlowAnswer(batches.TupleBatch(schema, passing))] if passing else []
        if self._name == "partition":
            return _parted(request, schema, rows, results)
        return []


def _parted(
    request: OperatorRequest, schema: batches.Schema, rows: list[batches.Row], places: list[Any]
) -> list[FlowAnswer]:
    """The tuples for the outputs whose numbers (from 1) a function returned; others are dropped."""
    port = only_output(request.call)
    outputs = request.call.outputs.get(port) or ()
    most = len(outputs) if isinstance(outputs, tuple) else 1
    parts: dict[int, list[batches.Row]] = {}
    for row, place in zip(rows, places, strict=True):
        if isinstance(place, int) and 1 <= place <= most:
            parts.setdefault(place - 1, []).append(row)
    return [FlowAnswer(batches.TupleBatch(schema, part), port, at) for at, part in sorted(parts.items())]


class CodeOperator:
    """An operator of a module: a function, called once for each tuple, or a class (T57)."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        name = request.call.operator.name
        function = tools.code.find(f"operator:{name}")
        if function is None:
            raise batches.FlowError("no-operator", f"no module declares the operator {name} (@operator)")
        self._code, self._call = tools.code, request.call
        self._ports = [port.name for port in request.call.operator.inputs]
        self._function = function
        self._instance: Any = None
        self._is_class = isinstance(function, type)

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Call the function, or the method of the class for the port."""
        if self._is_class:
            calls = await self._of_method(request)
        else:
            calls = [] if request.phase == "eos" else self._of_function(request)
        async with aclosing(self._code.stream(calls)) as yielded:
            async for some in yielded:
                for (port, at), values in _by_output(self._call, some).items():
                    for part in in_batches(values):
                        yield FlowAnswer(batch_from(part), port, at)

    def _of_function(self, request: OperatorRequest) -> list[Callable[[], Any]]:
        """The calls of a function for a request: one, or one for each tuple."""
        arguments = {name: request.arguments.get(name) for name in self._ports if name in request.arguments}
        if request.batch is None or request.phase == "run":
            return [partial(self._function, **arguments)]
        schema, rows, _ = request.batch
        return [partial(self._function, **{**arguments, request.port: given(schema, row)}) for row in rows]

    async def _of_method(self, request: OperatorRequest) -> list[Callable[[], Any]]:
        """The calls of methods for a request; the first request also calls `on_init`."""
        calls: list[Callable[[], Any]] = []
        if self._instance is None:
            self._instance = await self._code.in_thread(self._function)
            values = {name: value for name, value in request.arguments.items() if name in self._ports}
            for method in self._methods("on_init"):
                calls.append(partial(method, **values, **_streams_asked(method, self._call)))
        if request.batch is None or request.phase == "run":
            methods = self._methods(f"on_{request.port}_eos" if request.phase == "eos" else "on_run")
            return calls + [partial(method, *self._number(request, method, 0)) for method in methods]
        schema, rows, _ = request.batch
        (method,) = self._methods(f"on_{request.port}")
        number = self._number(request, method, 1)
        return calls + [partial(method, given(schema, row), *number) for row in rows]

    def _number(self, request: OperatorRequest, method: Callable[..., Any], others: int) -> tuple[int, ...]:
        """The number of the request's stream, from 1, for a method with one more parameter than `others`."""
        port = self._call.operator.input(request.port)
        takes = len(signature(method).parameters)
        return (request.at + 1,) if port is not None and port.many and takes > others else ()

    def _methods(self, name: str) -> list[Callable[..., Any]]:
        return [getattr(self._instance, name)] if hasattr(self._instance, name) else []


def _streams_asked(method: Callable[..., Any], call: OperatorCall) -> dict[str, list[str]]:
    """The names of the data of ports with any number of streams, for those ports that a method has as a
    parameter.
    """
    asked = signature(method).parameters
    inputs = {port.name: call.arguments.get(port.name, ()) for port in call.operator.streaming if port.many}
    outputs = {port.name: call.outputs.get(port.name) for port in call.operator.outputs if port.many}
    names = {
        name: [one if isinstance(one, str) else getattr(one, "name", "_") for one in data]
        for name, data in (inputs | outputs).items()
        if isinstance(data, tuple)
    }
    return {name: data for name, data in names.items() if name in asked}


def _by_output(call: OperatorCall, yielded: list[Any]) -> dict[tuple[str, int], list[Any]]:
    """Sort results by output. Each item is a value for the only output; a pair of an output's name and a
    value for all its streams; or the name, the number of a stream from 1, and a value.
    """
    sorted_values: dict[tuple[str, int], list[Any]] = {}
    for one in yielded:
        for place, value in _placed(call, one):
            sorted_values.setdefault(place, []).append(value)
    return sorted_values


def _placed(call: OperatorCall, one: Any) -> Iterator[tuple[tuple[str, int], Any]]:
    """The streams that an item goes to, with its value. Raises FlowError."""
    ports = call.operator.outputs
    name, *number = one[:-1] if isinstance(one, tuple) and len(one) in (2, 3) else ("",)
    value = one[-1] if name else one
    port = next((port for port in ports if port.name == name), None) if name else next(iter(ports), None)
    if port is None:
        names = ", ".join(port.name for port in ports) or "none"
        raise batches.FlowError(
            "wrong-output", f"expected an output of {call.operator.name} ({names}), found {name!r:.80}"
        )
    data = call.outputs.get(port.name)
    count = len(data) if port.many and isinstance(data, tuple) else 1
    if number and not (isinstance(number[0], int) and 1 <= number[0] <= count):
        message = f"expected a number from 1 to {count} for {port.name}, found {number[0]!r:.40}"
        raise batches.FlowError("wrong-output", message)
    for at in range(number[0] - 1, number[0]) if number else range(count):
        yield (port.name, at), value
