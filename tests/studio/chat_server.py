"""A server for chats: skills with tools, subordinates and a scripted model whose response depends on the message.

`python tests/studio/chat_server.py` prints the port, a token, and the ids and addresses that the tests use.
"""

import asyncio
import json
import sys
from typing import Any

import demo
import uvicorn

import wfcore
from wfcore.adapters.http import app
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.ports.providers import ModelRequest

ORG = "01941f29-7c00-7000-8000-000000000001"
MARKDOWN = """# Refunds

Some **bold** and *soft* text, `code`, ~~gone~~, a [link](https://example.com/x?a=1&b=2) and ![a chart](https://evil.test/p.png).

- [x] one
- two

1. first
2. second

| Order | Total |
|---|---|
| 7 | 40 &amp; more |

```python
print("<b>hi</b>")
```

> quoted
"""
EVIL = f"""<img src=x onerror=alert(1)><script>alert(1)</script> {demo.EVIL}
[a](javascript:alert(1)) [b](JaVaScRiPt&#58;alert(1)) [c](data:text/html,<script>alert(1)</script>)
<javascript:alert(1)>
![x](https://evil.test/leak.png) ![y](javascript:alert(1)) [ref]

[ref]: javascript:alert(1) "title"

<svg onload=alert(1)> <a href="javascript:alert(1)">x</a> &lt;script&gt;alert(1)&lt;/script&gt;
"""
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "fast": {"type": "boolean", "default": True, "title": "Fast"},
        "sure": {"type": "boolean", "title": "Sure"},
        "kind": {"enum": ["card", "cash"], "title": "Kind", "description": "How to pay back"},
        "amount": {"type": "number", "minimum": 1, "maximum": 10, "default": 4, "title": "Amount"},
        "due": {"type": "string", "format": "date", "title": "Due"},
        "at": {"type": "string", "format": "date-time", "title": "Paid at"},
        "lines": {"type": "array", "items": {"type": "integer"}, "title": "Lines"},
        "marks": {"type": "array", "items": {"enum": ["a", "b"]}, "default": ["b"], "title": "Marks"},
        "code": {"type": "string", "pattern": "^A", "title": "Code"},
        "note": {"type": "string", "title": "Note"},
    },
    "required": ["kind", "fast"],
}


def reply(request: ModelRequest) -> Any:
    """Calls of every tool for a message with `use`; otherwise a text that the message names."""
    last = request.messages[-1]
    human = str([message for message in request.messages if message["type"] == "human"][-1]["content"])
    if last["type"] == "tool":
        return f"Done: {last['content']}"
    if request.tools and "use" in human:
        calls = [{"name": tool.name, "args": arguments(tool.name, human)} for tool in request.tools for _ in range(2)]
        return {"content": "I use a tool.", "toolCalls": calls if "twice" in human else calls[:1]}
    if "huge" in human:
        return ">" * 800_000
    if "slowly" in human:
        return "word " * 60_000  # it goes on until a busy browser has clicked
    if "markdown" in human:
        return MARKDOWN
    if "evil" in human:
        return EVIL
    return f"You said: {human}"


def arguments(name: str, human: str) -> Any:
    return {"message": f"help with {human}"} if name.startswith("skill_") else {"value": human}


@wfcore.tool(provider="crm")
async def find_customer(value: str) -> str:
    """Find a customer."""
    return value


async def main() -> None:
    model = ScriptedModel(reply, delay=0.002)
    async with wfcore.open("sqlite://", models={"default": model}, tools=[find_customer]) as core:
        await core.directory.ensure_organization("Acme", id=ORG)
        await core.directory.add_member(ORG, "ada", "ada@acme.test", name="Ada Lovelace", role="owner")
        token = await core.directory.create_token(ORG, "ada", scopes=sorted(TOKEN_SCOPES))
        me = core.principal(ORG, user="ada", email="ada@acme.test")
        guarded = {"core.transform": {"enabled": True, "requiresApproval": True}}
        free = {"core.transform": {"enabled": True}}
        chat = [{"kind": "chatapp"}]

        async def skill(name: str, **fields: Any) -> Any:
            made = await core.skills.create(me, {"name": name, "instructions": ["Help."], "interfaces": chat, **fields})
            return await core.skills.deploy(me, made.id)

        helper = await skill("Helper", description="Helps with orders", toolset=free)
        careful = await skill("Careful", toolset=guarded)
        clerk = await skill("Clerk of <b>books</b>", toolset=free)
        authorization = {"authorizeUrl": "https://crm.test/authorize", "tokenUrl": "https://crm.test/token"}
        config = {**authorization, "clientId": "chats", "clientSecret": "secret"}
        await core.connections.create(me, {"name": "CRM", "provider": "crm", "kind": "oauth2", "config": config})
        seller = await skill("Seller", toolset={"find_customer": {"enabled": True}})
        boss = await skill("Boss", supervisionSubordinateIds=[str(clerk.id)])
        ask = demo.node("ask", "humanApproval", message="Pay back?", formSchema=FORM)
        show = demo.transform("show", "{{ nodes.ask.output.data }}")
        structure = demo.graph([ask, show], ("start", "ask"), ("ask", "show", "approved"))
        flow = await core.workflows.create(me, name="Refunds", structure=structure)
        await core.workflows.deploy(me, flow.id)
        row = await core.workflows.interfaces.create(me, flow.id, {"kind": "chatapp"})
        pages = {
            name: (await core.skills.get(me, one.id)).to_wire()["variation"]["interfaces"][0]["url"]
            for name, one in (("helper", helper), ("careful", careful), ("boss", boss))
        }
        serve = uvicorn.Config(app(core), "127.0.0.1", 0, log_level="error", ws="none", lifespan="off")
        server = uvicorn.Server(serve)
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  (uvicorn has no event for it)
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        found = {
            "port": port, "token": token, "helper": helper.id, "careful": careful.id,
            "boss": boss.id, "seller": seller.id, "workflow": flow.id,
            "pages": {**pages, "refunds": f"/interfaces/chatapp/{row.id}"},
        }  # fmt: skip
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        await serving


if __name__ == "__main__":
    asyncio.run(main())
