"""`python -m sandbox.apiserver`: the API server as its own process."""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import signal
from pathlib import Path

from sandbox.apiserver.api import API
from sandbox.apiserver.runner import prepared, save, write_kubeconfig
from sandbox.apiserver.server import Server


async def _run(port: int, kubeconfig: Path, state: Path | None, token: str) -> None:
    api = prepared(API(), state)
    server = Server(api, port=port, token=token)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await server.start()
    write_kubeconfig(kubeconfig, server.url, token)
    print(f"ready {server.url} kubeconfig={kubeconfig}", flush=True)
    await stop.wait()
    await server.stop()
    save(api, state)


def main() -> None:
    """Parses the arguments and serves until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.apiserver", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="where to write the kubeconfig")
    parser.add_argument("--state", type=Path, help="file to load objects from and to save them to at the end")
    parser.add_argument("--token", default="", help="bearer token that clients must send; one is made if none is given")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    asyncio.run(_run(arguments.port, arguments.kubeconfig, arguments.state, arguments.token or secrets.token_hex(16)))


if __name__ == "__main__":
    main()
