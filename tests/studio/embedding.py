"""The product and the portal of `examples/embedding`, each of an origin of its own.

`python tests/studio/embedding.py` prints the two ports.
"""

import asyncio
import json
import socket
import sys
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "embedding"))


async def main() -> None:
    import app as product
    import portal

    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    urls = [f"http://127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    applications = [product.build("sqlite://", [urls[1]]), portal.build(urls[0])]
    servers = [server(each) for each in applications]
    serving = [asyncio.create_task(one.serve([bound])) for one, bound in zip(servers, sockets, strict=True)]
    while not all(one.started for one in servers):  # noqa: ASYNC110  (uvicorn has no event for it)
        await asyncio.sleep(0.01)
    sys.stdout.write(json.dumps({"product": urls[0], "portal": urls[1]}) + "\n")
    sys.stdout.flush()
    await asyncio.gather(*serving)


def server(application: ASGIApp) -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(application, log_level="error", ws="none"))


if __name__ == "__main__":
    asyncio.run(main())
