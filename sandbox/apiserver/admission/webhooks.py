"""Admission webhooks: calls to what Mutating- and ValidatingWebhookConfigurations name, over TLS with their caBundle.

There is no cluster network: a webhook is reached by `clientConfig.url`. One that names a service fails as one that
cannot be reached (its failurePolicy decides).
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

import base64
import binascii
import ssl
import uuid
from collections.abc import Iterator
from typing import Any

import aiohttp
import jsonpatch
import jsonpointer
import orjson

from sandbox.apiserver.admission.admission import Attributes
from sandbox.apiserver.admission.reviews import USER
from sandbox.apiserver.errors import APIError, bad_request, internal
from sandbox.apiserver.kinds.resources import Resource
from sandbox.apiserver.schemas import decode, structural
from sandbox.apiserver.verbs.selectors import label_selector_matches

Obj = dict[str, Any]
_GROUP = "admissionregistration.k8s.io"
_MUTATING = (_GROUP, "mutatingwebhookconfigurations")
_VALIDATING = (_GROUP, "validatingwebhookconfigurations")


class CallFailedError(Exception):
    """The webhook gave no usable answer; its failurePolicy says what follows."""


class Webhooks:
    """The admission plugin that calls webhooks, in the order of their configurations' names."""

    async def admit(self, attributes: Attributes) -> None:
        """Mutating webhooks: each sees what the one before made."""
        for hook in _hooks(attributes, _MUTATING):
            response = await _ask(hook, attributes)
            if response.get("patch") and attributes.obj is not None:
                _patch(hook, attributes, response)

    async def validate(self, attributes: Attributes) -> None:
        """Validating webhooks."""
        for hook in _hooks(attributes, _VALIDATING):
            await _ask(hook, attributes)


def _hooks(attributes: Attributes, key: tuple[str, str]) -> Iterator[Obj]:
    """The webhooks that want to see this request. Webhook configurations themselves are never sent."""
    if attributes.request.resource.group == _GROUP:
        return
    for entry in attributes.api.store.list(key):
        for hook in entry.obj.get("webhooks") or ():
            if _wants(hook, attributes):
                yield hook


def _wants(hook: Obj, attributes: Attributes) -> bool:
    if not any(_rule_matches(rule, attributes) for rule in hook.get("rules") or ()):
        return False
    if not label_selector_matches(hook.get("namespaceSelector") or {}, _namespace_labels(attributes)):
        return False
    selector = hook.get("objectSelector") or {}
    objects = [obj for obj in (attributes.obj, attributes.old) if obj is not None]
    if not any(label_selector_matches(selector, obj["metadata"].get("labels") or {}) for obj in objects):
        return False
    variables = {"object": attributes.obj, "oldObject": attributes.old, "request": _request(attributes)}
    return all(structural.holds(c["expression"], variables) for c in hook.get("matchConditions") or ())


def _rule_matches(rule: Obj, attributes: Attributes) -> bool:
    resource = attributes.request.resource
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return (
        _listed(rule.get("operations"), attributes.operation)
        and _listed(rule.get("apiGroups"), resource.group)
        and _listed(rule.get("apiVersions"), resource.version)
        and rule.get("scope", "*") in ("*", scope)
        and any(
            _resource_matches(text, resource, attributes.request.subresource) for text in rule.get("resources") or ()
        )
    )


def _listed(values: Any, value: str) -> bool:
    return "*" in (values or ()) or value in (values or ())


def _resource_matches(text: str, resource: Resource, subresource: str) -> bool:
    plural, slash, wanted = text.partition("/")
    if plural not in ("*", resource.plural):
        return False
    return wanted in ("*", subresource) if slash else not subresource


def _namespace_labels(attributes: Attributes) -> dict[str, str]:
    request = attributes.request
    if request.resource.storage_key == ("", "namespaces"):
        found = attributes.obj or attributes.old
    else:
        found = attributes.api.lookup(("", "namespaces"), "", request.namespace)
    labels: dict[str, str] = ((found or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _request(attributes: Attributes) -> Obj:
    """`AdmissionReview.request`."""
    request, resource = attributes.request, attributes.request.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    names = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    metadata = (attributes.obj or attributes.old or {}).get("metadata") or {}
    options = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}[attributes.operation]
    body: Obj = {
        "uid": str(uuid.uuid4()), "kind": kind, "resource": names, "requestKind": kind, "requestResource": names,
        "name": metadata.get("name", ""), "operation": attributes.operation, "userInfo": USER,
        "object": attributes.obj, "oldObject": attributes.old, "dryRun": attributes.dry_run,
        "options": {"kind": options, "apiVersion": "meta.k8s.io/v1", **attributes.options},
    }  # fmt: skip
    if request.namespace:
        body["namespace"] = request.namespace
    if request.subresource:
        body["subResource"] = body["requestSubResource"] = request.subresource
    return body


async def _ask(hook: Obj, attributes: Attributes) -> Obj:
    """The webhook's response when it allows. Raises APIError when it denies, or fails under failurePolicy Fail."""
    if attributes.dry_run and hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
        raise bad_request(f'admission webhook "{hook["name"]}" does not support dry run')
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": _request(attributes)}
    try:
        response = await _call(hook, body)
    except CallFailedError as error:
        if hook.get("failurePolicy", "Fail") == "Ignore":
            return {}
        raise internal(f'failed calling webhook "{hook["name"]}": failed to call webhook: {error}') from error
    attributes.warnings.extend(response.get("warnings") or ())
    if not response.get("allowed"):
        raise _denial(hook["name"], response.get("status") or {})
    return response


async def _call(hook: Obj, body: Obj) -> Obj:
    config = hook.get("clientConfig") or {}
    url = config.get("url")
    if not url:
        service = config.get("service") or {}
        name = f"{service.get('namespace')}/{service.get('name')}"
        raise CallFailedError(f"there is no network to service {name} here: give clientConfig.url")
    timeout = aiohttp.ClientTimeout(total=hook.get("timeoutSeconds", 10))
    try:
        trust = ssl.create_default_context(cadata=base64.b64decode(config.get("caBundle", "")).decode() or None)
        async with (
            aiohttp.ClientSession(
                timeout=timeout, json_serialize=lambda value: orjson.dumps(value).decode()
            ) as session,
            session.post(url, json=body, ssl=trust) as answer,
        ):
            if answer.status != 200:
                raise CallFailedError(f"the server answered {answer.status}")
            review = orjson.loads(await answer.read())
            response = review["response"]
    except (TimeoutError, aiohttp.ClientError, ssl.SSLError, binascii.Error, ValueError, KeyError, TypeError) as error:
        raise CallFailedError(f"Post {url!r}: {error or type(error).__name__}") from error
    if not isinstance(response, dict) or response.get("uid") != body["request"]["uid"]:
        raise CallFailedError(f"Post {url!r}: the response is not to our request's uid")
    return response


def _denial(name: str, status: Obj) -> APIError:
    """Webhook denials in the API server's words; a code below 400 becomes 400."""
    denied = f'admission webhook "{name}" denied the request'
    words = status.get("message") or status.get("reason")
    code = max(int(status.get("code") or 0), 400)
    return APIError(
        code, str(status.get("reason") or ""), f"{denied}: {words}" if words else f"{denied} without explanation",
        details=status.get("details"),
    )  # fmt: skip


def _patch(hook: Obj, attributes: Attributes, response: Obj) -> None:
    """Applies the webhook's JSON patch to the object in place, and prunes what it added outside of the schema."""
    assert attributes.obj is not None
    if response.get("patchType") != "JSONPatch":
        raise internal(f'admission webhook "{hook["name"]}": unsupported patch type {response.get("patchType")!r}')
    try:
        patched = jsonpatch.JsonPatch(orjson.loads(base64.b64decode(response["patch"]))).apply(attributes.obj)
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        orjson.JSONDecodeError,
        binascii.Error,
    ) as error:
        raise internal(f'admission webhook "{hook["name"]}": its patch does not apply: {error}') from error
    resource = attributes.request.resource
    decode.decode(patched, attributes.api.schema_of(resource), custom=resource.custom)
    attributes.obj.clear()
    attributes.obj.update(patched)
