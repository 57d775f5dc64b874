"""The WSGI application in front of moto: reads a call, applies the faults, lets the layer or moto answer, logs it."""

from __future__ import annotations

import http
import io
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from email.utils import formatdate
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.iam.models import get_account_id_from
from werkzeug.exceptions import HTTPException

from sandbox.aws import wire
from sandbox.aws.calls import Call, CallLog
from sandbox.aws.control import Control
from sandbox.aws.ec2.network import translated
from sandbox.aws.faults import Fault, error_of
from sandbox.aws.wire import AwsError, Reply, Request
from sandbox.aws.world import World

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Wsgi = Callable[[Environ, StartResponse], Iterable[bytes]]
_TEMPORARY_KEY = re.compile(r"Credential=(ASIA[A-Z0-9]+)/")
_CLUSTER_ACTIONS = {"CreateCluster", "DescribeCluster"}


class Gateway:
    """One sandbox's front. EC2's calls are carried out one at a time, others side by side."""

    def __init__(self, world: World, moto: Wsgi, calls: CallLog) -> None:
        self._world = world
        self._moto = moto
        self._calls = calls
        self._control = Control(world, calls)
        self._ec2_lock = threading.RLock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = self._account(environ.get("HTTP_AUTHORIZATION", ""))
        answer, extra = self._answer(environ, body)
        date = ("Date", formatdate(self._world.now(), usegmt=True))
        return _send(start_response, answer, [date, *((n, v) for n, v in extra if n.lower() != "date")])

    def _account(self, authorization: str) -> str:
        """The account of the role whose temporary key signed, else this sandbox's: any other key works in it."""
        key = _TEMPORARY_KEY.search(authorization)
        account: str = get_account_id_from(key[1]) if key else DEFAULT_ACCOUNT_ID
        return self._world.account if account == DEFAULT_ACCOUNT_ID else account

    def _answer(self, environ: Environ, body: bytes) -> tuple[Reply, list[tuple[str, str]]]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path.startswith("/sandbox/"):
            with self._ec2_lock:
                self._world.instances.sweep(self._world.now())
                return self._control.answer(method, path, environ.get("QUERY_STRING", ""), body), []
        headers = _headers(environ)
        try:
            request = wire.parse_request(method, path, headers, body)
        except AwsError as error:
            return wire.render_error("ec2", headers, error)
        if request is None:
            return self._ask_moto(environ, body)
        return self._logged(request, environ, headers, body)

    def _logged(
        self, request: Request, environ: Environ, headers: Callable[[str], str], body: bytes
    ) -> tuple[Reply, list[tuple[str, str]]]:
        began = time.monotonic()
        code, status = "ConnectionDropped", 0
        try:
            reply, extra = self._with_faults(request, environ, body)
            status, code = reply.status, "" if reply.status < 400 else _code(reply)
        except AwsError as error:
            reply, extra = wire.render_error(request.service, headers, error)
            status, code = error.status, error.code
        except ConnectionError:
            raise
        except Exception as bug:  # noqa: BLE001  (a bug of ours: shown in full, answered as AWS answers its own)
            traceback.print_exc()
            failure = AwsError("InternalError", f"the sandbox failed on {request.action}: {bug!r}", 500)
            reply, extra = wire.render_error(request.service, headers, failure)
            status, code = failure.status, failure.code
        finally:
            self._calls.add(Call(
                at=self._world.now(), service=request.service, action=request.action, region=request.region,
                access_key=request.access_key, status=status, code=code, seconds=time.monotonic() - began,
                params=request.params,
            ))  # fmt: skip
        return reply, extra

    def _with_faults(self, request: Request, environ: Environ, body: bytes) -> tuple[Reply, list[tuple[str, str]]]:
        fault = self._world.faults.for_call(request.service, request.action, request.access_key)
        if fault is None:
            return self._dispatch(request, environ, body)
        if fault.half:
            ids = request.params["InstanceIds"]
            request = replace(request, params=request.params | {"InstanceIds": ids[: max(1, len(ids) // 2)]})
        if not fault.after:
            time.sleep(fault.delaySeconds)
            _fail(fault, request)
        answer = self._dispatch(request, environ, body)
        if fault.after:
            time.sleep(fault.delaySeconds)
            _fail(fault, request)
        return answer

    def _dispatch(self, request: Request, environ: Environ, body: bytes) -> tuple[Reply, list[tuple[str, str]]]:
        if request.params.get("DryRun"):
            raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        with self._ec2_lock:
            self._world.instances.sweep(self._world.now())
            if request.service == "ec2":
                return self._carry_out(request, environ, body)
        return self._carry_out(request, environ, body)

    def _carry_out(self, request: Request, environ: Environ, body: bytes) -> tuple[Reply, list[tuple[str, str]]]:
        handler = self._world.handler(request.service, request.action, request.region)
        if handler is not None:
            try:
                answer = handler(request.params)
            except (HTTPException, ServiceException) as error:
                raise translated(error) from error
            if answer is not None:
                return wire.render(request, answer), []
        reply, extra = self._ask_moto(environ, body)
        if request.service == "eks" and request.action in _CLUSTER_ACTIONS and reply.status == 200:
            with self._ec2_lock:
                reply = Reply(reply.status, self._world.clusters.completed(reply.body), reply.content_type)
        return reply, extra

    def _ask_moto(self, environ: Environ, body: bytes) -> tuple[Reply, list[tuple[str, str]]]:
        captured: dict[str, Any] = {}

        def capture(status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> None:
            captured["status"], captured["headers"] = int(status.split()[0]), headers

        environ["wsgi.input"] = io.BytesIO(body)
        data = b"".join(self._moto(environ, capture))
        headers = {name.lower(): value for name, value in captured["headers"]}
        extra = [
            (n, v) for n, v in captured["headers"] if n.lower() not in {"content-length", "content-type", "connection"}
        ]
        return Reply(captured["status"], data, headers.get("content-type", "text/xml")), extra


def _fail(fault: Fault, request: Request) -> None:
    if fault.drop:
        raise ConnectionResetError("dropped by a fault of the scenario")
    if fault.code:
        raise error_of(fault, request.service, request.action)


def _code(reply: Reply) -> str:
    text = reply.body.decode(errors="replace")
    start = text.find("<Code>")
    return text[start + 6 : text.find("</Code>")] if start >= 0 else f"HTTP{reply.status}"


def _headers(environ: Environ) -> Callable[[str], str]:
    def read(name: str) -> str:
        key = name.upper().replace("-", "_")
        return str(environ.get(key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}") or "")

    return read


def _send(start_response: StartResponse, reply: Reply, extra: list[tuple[str, str]]) -> Iterable[bytes]:
    status = f"{reply.status} {http.HTTPStatus(reply.status).phrase}"
    start_response(status, [("Content-Type", reply.content_type), ("Content-Length", str(len(reply.body))), *extra])
    return [reply.body]
