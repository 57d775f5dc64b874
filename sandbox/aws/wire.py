"""AWS's wire formats, both ways, driven by botocore's service models.

Handlers of the sandbox take and give the dicts that boto3 users know; this module turns requests into them and their
answers into what the SDK expects: EC2's query/XML protocol in full, and the JSON protocols. Errors have one shape each.
Sources: the `ec2` and `json` protocols of botocore's models; AWS "Common error codes".
"""

from __future__ import annotations

import base64
import datetime as dt
import functools
import json
import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

import botocore.session
from botocore.model import ListShape, OperationModel, ServiceModel, Shape, StructureShape

Params = dict[str, Any]
"""Arguments or an answer, in boto3's shape."""

_SCOPE = re.compile(r"Credential=([^/,\s]+)/\d+/([^/]+)/([^/]+)/aws4_request")
_EC2_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
_MODEL_BY_SIGNING_NAME = {"monitoring": "cloudwatch", "servicequotas": "service-quotas"}
_QUERY_SERVICES = {"iam", "sts", "cloudformation", "autoscaling"}


class AwsError(Exception):
    """An error reply of AWS. `status` is the HTTP status; `code` and `message` are what the SDK's ClientError shows."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


@dataclass(frozen=True, slots=True)
class Raw:
    """Serialised XML of a structure's members, made once and sent many times."""

    xml: str


@dataclass(frozen=True, slots=True)
class Request:
    """One AWS call as it arrived. `params` is decoded only for services in `DECODED`."""

    service: str
    """Signing name: ec2, ssm, pricing, eks, sqs, events, iam, sts, servicequotas."""
    region: str
    action: str
    access_key: str
    params: Params = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: bytes
    content_type: str


@functools.cache
def service_model(service: str) -> ServiceModel:
    """botocore's model of a service; raises botocore's UnknownServiceError."""
    return botocore.session.get_session().get_service_model(_MODEL_BY_SIGNING_NAME.get(service, service))


def parse_request(method: str, path: str, headers: Callable[[str], str], body: bytes) -> Request | None:
    """Read who calls what; None for a request that no AWS SDK signed. `headers` gives "" for an absent one."""
    scope = _SCOPE.search(headers("authorization"))
    if scope is None:
        return None
    access_key, region, service = scope.groups()
    target = headers("x-amz-target")
    if target:
        action = target.rpartition(".")[2]
        params = json.loads(body) if body and service in {"ssm", "pricing", "servicequotas"} else {}
        return Request(service, region, action, access_key, params)
    if headers("content-type").startswith("application/x-www-form-urlencoded"):
        form = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        action = form.get("Action", "")
        params = _decode_query(service, action, form) if service == "ec2" else {}
        return Request(service, region, action, access_key, params)
    action, params = _rest_action(service, method, path)
    if body and service == "arc-zonal-shift":
        params |= json.loads(body)
    return Request(service, region, action, access_key, params)


@functools.cache
def _routes(service: str) -> tuple[tuple[str, re.Pattern[str], str], ...]:
    model = service_model(service)
    routes = []
    for name in model.operation_names:
        http = model.operation_model(name).http
        path = re.escape(http.get("requestUri", "/").partition("?")[0])
        path = path.replace(r"\{resourceIdentifier\}", "(?P<resourceIdentifier>.+)")  # an ARN, with slashes
        path = re.sub(r"\\\{[^}]+\\\}", "[^/]+", path)
        routes.append((http.get("method", "POST"), re.compile(path + "/?"), name))
    return tuple(routes)


def _rest_action(service: str, method: str, path: str) -> tuple[str, Params]:
    """The action, and the ARN in its path."""
    try:
        routes = _routes(service)
    except botocore.session.UnknownServiceError:
        return f"{method} {path}", {}
    for verb, pattern, name in routes:
        if verb == method and (found := pattern.fullmatch(path)):
            return name, found.groupdict()
    return f"{method} {path}", {}


def _decode_query(service: str, action: str, form: Mapping[str, str]) -> Params:
    model = service_model(service)
    if action not in model.operation_names:
        return {}
    trie: dict[str, Any] = {}
    for key, value in form.items():
        node = trie
        *parents, leaf = key.split(".")
        for part in parents:
            child = node.setdefault(part, {})
            if not isinstance(child, dict):
                raise AwsError("InvalidParameterCombination", f"{key} clashes with another parameter")
            node = child
        node[leaf] = value
    shape = model.operation_model(action).input_shape
    decoded = _decode(shape, trie) if shape is not None else {}
    return decoded if isinstance(decoded, dict) else {}


def _decode(shape: Shape, node: Any) -> Any:
    if isinstance(shape, StructureShape):
        members = ((name, member, _query_name(name, member)) for name, member in shape.members.items())
        return {name: _decode(member, node[key]) for name, member, key in members if key in node}
    if isinstance(shape, ListShape):
        if not isinstance(node, dict):
            return []
        return [_decode(shape.member, node[index]) for index in sorted((k for k in node if k.isdigit()), key=int)]
    return _decode_scalar(shape, node)


def _decode_scalar(shape: Shape, text: str) -> Any:
    try:
        match shape.type_name:
            case "boolean":
                return text.lower() == "true"
            case "integer" | "long":
                return int(text)
            case "float" | "double":
                return float(text)
            case "timestamp":
                return dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
            case "blob":
                return base64.b64decode(text)
            case _:
                return text
    except ValueError as error:
        raise AwsError("InvalidParameterValue", f"Invalid value '{text}' for a {shape.type_name}") from error


def _query_name(name: str, member: Shape) -> str:
    serialization = member.serialization
    if "queryName" in serialization:
        return str(serialization["queryName"])
    location = str(serialization.get("name", name))
    return location[:1].upper() + location[1:]


def render(request: Request, answer: Params) -> Reply:
    """The answer of one of our handlers, on the wire."""
    if request.service != "ec2":
        body = json.dumps(answer, default=_json_scalar).encode()
        return Reply(200, body, "application/x-amz-json-1.1")
    operation: OperationModel = service_model("ec2").operation_model(request.action)
    shape = operation.output_shape
    inner = members_xml(shape, answer) if isinstance(shape, StructureShape) else "<return>true</return>"
    xml = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{request.action}Response xmlns="{_EC2_NAMESPACE}">'
        f"<requestId>00000000-0000-4000-8000-000000000000</requestId>{inner}</{request.action}Response>"
    )
    return Reply(200, xml.encode(), "text/xml;charset=UTF-8")


def output_item(action: str, list_member: str) -> StructureShape:
    """The shape of one element of a list in an EC2 answer, for `members_xml` ahead of time."""
    shape = service_model("ec2").operation_model(action).output_shape
    if not isinstance(shape, StructureShape):
        raise TypeError(f"{action} has no answer")
    return list_item(shape.members[list_member])


def list_item(shape: Shape) -> StructureShape:
    """The shape of a list's elements; raises TypeError unless they are structures."""
    if not isinstance(shape, ListShape) or not isinstance(shape.member, StructureShape):
        raise TypeError(f"{shape.name} is not a list of structures")
    return shape.member


def members_xml(shape: StructureShape, value: Mapping[str, Any]) -> str:
    """The XML of a structure's members (without its own tag). Members absent from the model are an error."""
    parts = []
    known = shape.members
    for name, item in value.items():
        if item is None:
            continue
        member = known[name]
        tag = member.serialization.get("name", name)
        parts.append(f"<{tag}>{_xml(member, item)}</{tag}>")
    return "".join(parts)


def _xml(shape: Shape, value: Any) -> str:
    if isinstance(value, Raw):
        return value.xml
    if isinstance(shape, StructureShape):
        return members_xml(shape, value)
    if isinstance(shape, ListShape):
        tag = shape.member.serialization.get("name", "item")
        return "".join([f"<{tag}>{_xml(shape.member, item)}</{tag}>" for item in value])
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return escape(str(value))


def render_error(service: str, headers: Callable[[str], str], error: AwsError) -> tuple[Reply, list[tuple[str, str]]]:
    """The error in the protocol of the request, and the headers that go with it."""
    if service == "ec2":
        xml = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error><Code>{escape(error.code)}</Code>'
            f"<Message>{escape(error.message)}</Message></Error></Errors>"
            "<RequestID>00000000-0000-4000-8000-000000000000</RequestID></Response>"
        )
        return Reply(error.status, xml.encode(), "text/xml;charset=UTF-8"), []
    if service in _QUERY_SERVICES and not headers("x-amz-target"):
        kind = "Receiver" if error.status >= 500 else "Sender"
        xml = (
            f"<ErrorResponse><Error><Type>{kind}</Type><Code>{escape(error.code)}</Code>"
            f"<Message>{escape(error.message)}</Message></Error>"
            "<RequestId>00000000-0000-4000-8000-000000000000</RequestId></ErrorResponse>"
        )
        return Reply(error.status, xml.encode(), "text/xml"), []
    body = json.dumps({"__type": error.code, "message": error.message}).encode()
    return Reply(error.status, body, "application/x-amz-json-1.1"), [("x-amzn-ErrorType", error.code)]


def _json_scalar(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.timestamp()
    raise TypeError(f"{type(value).__name__} has no JSON form")
