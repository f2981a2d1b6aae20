"""The scripted model: the same response for the same request, and values that match their schemas."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wfcore.adapters.models import scripted
from wfcore.adapters.models.scripted import Reply, ScriptedModel, sample
from wfcore.domain.json.schema import compile_schema
from wfcore.ports.providers import (
    Delta,
    Finished,
    ModelError,
    ModelRequest,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
    ToolDefinition,
    collect_calls,
)

pytestmark = pytest.mark.anyio


def asking(text: str, **fields: Any) -> ModelRequest:
    return ModelRequest([{"type": "human", "content": text}], **fields)


async def deltas(model: ScriptedModel, request: ModelRequest) -> list[Delta]:
    return [delta async for delta in model.stream(request)]


async def answer(model: ScriptedModel, request: ModelRequest) -> str:
    return "".join(delta.text for delta in await deltas(model, request) if isinstance(delta, TextDelta))


async def test_replies_come_in_turn() -> None:
    """Each call uses the next reply; exceptions are raised."""
    broken = ModelError("busy")
    model = ScriptedModel(["one", broken, "two"])
    assert await answer(model, asking("?")) == "one"
    with pytest.raises(ModelError) as raised:
        await answer(model, asking("?"))
    assert raised.value is broken
    assert await answer(model, asking("?")) == "two"


async def test_requests_are_recorded() -> None:
    """In order, each as it was received."""
    model = ScriptedModel(["one", "two"])
    assert [await answer(model, asking(text)) for text in ("a", "b")] == ["one", "two"]
    assert model.requests == [asking("a"), asking("b")]
    model.check()


async def test_the_end_of_a_script_is_an_error() -> None:
    """The request after the last reply fails without a retry, and `check` fails with the same words."""
    model = ScriptedModel(["one"])
    await answer(model, asking("?"))
    with pytest.raises(ModelError, match="has 1 replies, and 2 requests came") as raised:
        await answer(model, asking("?"))
    assert not raised.value.retryable
    with pytest.raises(AssertionError, match="has 1 replies, and 2 requests came"):
        model.check()
    assert len(model.requests) == 2


async def test_replies_can_be_added() -> None:
    """To a list, and to a model without a script, which has quoted the question before."""
    model = ScriptedModel()
    assert "hello" in await answer(model, asking("hello"))
    model.play("one")
    model.play("two")
    assert [await answer(model, asking("?")), await answer(model, asking("?"))] == ["one", "two"]
    model.check()


async def test_the_last_requests_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model without a script can serve for days: it does not grow."""
    monkeypatch.setattr(scripted, "MAX_REQUESTS", 3)
    model = ScriptedModel()
    for text in "abcde":
        await answer(model, asking(text))
    assert model.requests == [asking("c"), asking("d"), asking("e")]


async def test_one_text_is_one_reply() -> None:
    """A text as the script is one reply, not one per character."""
    model = ScriptedModel("hello there")
    assert [await answer(model, asking("?")) for _ in range(2)] == ["hello there"] * 2


async def test_a_function_makes_replies() -> None:
    """A function is called with the request."""
    model = ScriptedModel(lambda request: request.messages[-1]["content"].upper())
    assert await answer(model, asking("hi")) == "HI"


async def test_words_are_tokens() -> None:
    """The words come one by one, then the usage in words, then the end."""
    model = ScriptedModel(["a b  c "])
    request = ModelRequest([{"type": "system", "content": "be brief"}, {"type": "human", "content": "one two three"}])
    words = [TextDelta("a"), TextDelta(" b"), TextDelta("  c"), TextDelta(" ")]
    assert await deltas(model, request) == [*words, TokenUsage(5, 3), Finished()]


async def test_without_a_script_the_last_question_is_quoted() -> None:
    """The response says that no model is configured, and quotes the last human message, at most 600 characters."""
    history = [
        {"type": "human", "content": "first"},
        {"type": "ai", "content": "well"},
        {"type": "human", "content": "second"},
        {"type": "tool", "content": "result"},
    ]
    reply = await answer(ScriptedModel(), ModelRequest(history))
    assert "no model" in reply
    assert reply.endswith(" second")
    assert await answer(ScriptedModel(), ModelRequest(history)) == reply
    assert len(await answer(ScriptedModel(), asking("x" * 10_000))) <= 600
    assert await answer(ScriptedModel(), ModelRequest([]))


@pytest.mark.parametrize(
    "wrong", [{"replies": []}, {"replies": ""}, {"replies": {}}, {"delay": -1}, {"delay": float("nan")}]
)
async def test_an_invalid_script_is_refused(wrong: Any) -> None:
    """An empty script or an invalid delay is refused when the model is created."""
    with pytest.raises(ValueError, match=r"reply|seconds"):
        ScriptedModel(**wrong)


@given(st.text(max_size=40))
@settings(max_examples=100)
def test_no_character_is_lost(text: str) -> None:
    """The deltas of a response together are the response."""
    from wfcore.adapters.models.scripted import _WORDS

    assert "".join(_WORDS.findall(text)) == text


# Schemas

BOUNDS = st.integers(-5, 5)


def numbers() -> st.SearchStrategy[Any]:
    def bounded(kind: str, low: int, span: int, keys: tuple[str, str]) -> dict[str, Any]:
        return {"type": kind, keys[0]: low, keys[1]: low + span}

    ends = st.sampled_from(
        [(low, high) for low in ("minimum", "exclusiveMinimum") for high in ("maximum", "exclusiveMaximum")]
    )
    kinds = st.sampled_from(["integer", "number"])
    one_sided = st.builds(lambda kind, key, n: {"type": kind, key: n}, kinds, ends.flatmap(st.sampled_from), BOUNDS)
    multiple = st.builds(lambda n, of: {"type": "number", "minimum": n, "multipleOf": of}, BOUNDS, st.integers(1, 4))
    return st.builds(bounded, kinds, BOUNDS, st.integers(2, 5), ends) | one_sided | multiple


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def closed(properties: dict[str, Any], all_required: bool) -> dict[str, Any]:
        required = {"required": list(properties)} if all_required else {}
        return {"type": "object", "properties": properties, "additionalProperties": False, **required}

    return st.builds(closed, st.dictionaries(st.sampled_from("abc"), inner, max_size=3), st.booleans())


PLAIN = st.one_of(
    st.builds(lambda n: {"type": "string", "minLength": n}, st.integers(0, 5)),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}, {"type": ["string", "null"]}, {"const": [1]}]),
    st.builds(lambda values: {"enum": values}, st.lists(st.integers() | st.text(max_size=3), min_size=1, unique=True)),
    numbers(),
)
SCHEMAS = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        objects(inner),
        st.builds(lambda items, n: {"type": "array", "items": items, "minItems": n}, inner, st.integers(0, 2)),
        st.builds(lambda first, items: {"type": "array", "prefixItems": [first], "items": items}, inner, inner),
        st.builds(lambda choices: {"anyOf": choices}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=5,
)


@given(SCHEMAS)
@settings(max_examples=150)
def test_a_sample_matches_its_schema(schema: Any) -> None:
    """For any plain schema the sample is valid."""
    assert compile_schema(schema).check(sample(schema), "") == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Line", "$defs": {"Line": {"type": "object", "properties": {"n": {"type": "integer"}}}}},
        {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "string", "minLength": 2}}}]},
        {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "required": ["c"]},
        {"$defs": {"a/b": {"const": 1}}, "properties": {"x": {"$ref": "#/$defs/a~1b"}}, "required": ["x"]},
        {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": []},
        {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]},
        {"type": "integer", "maximum": -1.5},
        {"type": "number", "maximum": -4, "multipleOf": 3},
        {"type": "array", "prefixItems": [{"const": 1}], "items": {"type": "boolean"}, "minItems": 2},
        True,
    ],
)
def test_references_and_combinations(schema: Any) -> None:
    """Local references, `allOf` and first alternatives are merged into one valid value."""
    assert compile_schema(schema).check(sample(schema), "") == []


def test_an_endless_schema_has_a_sample() -> None:
    """A schema that refers to itself without end, or to nothing, gives a value soon."""
    endless = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert json.dumps(sample(endless)).count("next") < 100
    assert sample({"$ref": "#"}) is None
    assert sample({"$ref": "#/nowhere"}) is None
    assert sample({"anyOf": [{"$ref": "#"}]}) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 10**15},
        {"type": "array", "minItems": 10**15},
        {"type": "array", "minItems": 100, "items": {"$ref": "#"}},
        {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    ],
)
def test_a_sample_is_bounded(schema: Any) -> None:
    """A short schema that demands more than memory holds gives a small value, at once."""
    assert len(json.dumps(sample(schema))) < 300_000


async def test_an_output_schema_gives_json() -> None:
    """The response is the JSON text of a valid value."""
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    assert json.loads(await answer(ScriptedModel(), asking("?", output_schema=schema))) == {"ok": False}


# Tool calls


async def test_messages_with_calls_are_streamed() -> None:
    """First the text, word by word, then each call, first its name, then its arguments in fragments; the reason is
    `tool_calls`.
    """
    call = {"id": "c1", "name": "time", "args": {"city": "Bonn"}}
    model = ScriptedModel({"content": "I look.", "toolCalls": [call]})
    assert await deltas(model, asking("?")) == [
        TextDelta("I"),
        TextDelta(" look."),
        ToolCallDelta(0, "c1", "time"),
        ToolCallDelta(0, arguments='{"city":'),
        ToolCallDelta(0, arguments='"Bonn"}'),
        TokenUsage(1, 3),
        Finished("tool_calls"),
    ]


async def test_missing_ids_are_generated() -> None:
    """A call without an id gets one, unique in the model; `args` can be missing, and text is sent unchanged."""
    calls = [{"name": "time"}, {"name": "time", "args": "{half"}]
    model = ScriptedModel({"toolCalls": calls})
    first, second = [collect_calls(await deltas(model, asking("?"))) for _ in range(2)]
    assert [call["args"] for call in first] == [{}, "{half"]
    assert len({call["id"] for call in [*first, *second]}) == 4


async def test_a_function_plays_an_agent() -> None:
    """A script that reads the results calls a tool first, and responds then."""

    def play(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        return last["content"] if last["type"] == "tool" else {"toolCalls": [{"name": request.tools[0].name}]}

    model = ScriptedModel(play)
    asked = asking("what is the time?", tools=[ToolDefinition("time")])
    (call,) = collect_calls(await deltas(model, asked))
    result = {"type": "tool", "content": "12:00", "toolCallId": call["id"]}
    assert await answer(model, ModelRequest([*asked.messages, result], tools=asked.tools)) == "12:00"


async def test_a_message_can_be_empty() -> None:
    """An empty list of calls is as no list: the response ends with `stop`."""
    assert await deltas(ScriptedModel([{"toolCalls": []}]), asking("?")) == [TokenUsage(1, 0), Finished()]
