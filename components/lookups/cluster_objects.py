"""Which of the stack's Kubernetes objects exist already: the cluster's API server is asked before anything is declared.

The one place of the stack that asks without Pulumi, whose Kubernetes provider has no look-ups, only reads that fail
where there is nothing (docs/adr/0080-preview-asks-the-clusters-api.md). A server that does not answer stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import urllib3
from kubernetes import config as kube_config
from kubernetes.client import ApiClient, Configuration

from components.documents.manifests import KeyedObject
from controller.core.api.strict import Report
from controller.core.untrusted_json import UnreadableJsonError, read_object

CONNECT_SECONDS, READ_SECONDS = 3.0, 5.0
AT_A_TIME = 8
"""Requests under way at once: a preview waits for a few round trips, not for one an object."""
MOST_BYTES = 4 * 2**20
"""Of one answer: a CRD with its managed fields has a few hundred kilobytes."""
PULUMI = "pulumi"
"""What names of Pulumi's field managers begin with."""
STACK_ANNOTATION = "karpenter.sh/stack"
"""Annotation of the stack's objects: PROJECT/STACK, as its tag in AWS."""
HELM_RELEASE, HELM_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
REMEDY = "remove it, leave it out, or take it over with `adopt: true`"


class UnansweredError(Exception):
    """The API server did not answer, or refused to; the message says how."""


class ClusterApi:
    """An API server that is asked for single objects, with short timeouts and without retries."""

    def __init__(self, configuration: Configuration) -> None:
        configuration.retries = False
        self._configuration = configuration
        self._server = str(configuration.host).rstrip("/")
        self._pool = ApiClient(configuration).rest_client.pool_manager

    @classmethod
    def of_kubeconfig(cls, path: str) -> ClusterApi:
        """As this kubeconfig says. Raises UnansweredError."""
        configuration = Configuration()
        try:
            kube_config.load_kube_config(path, None, configuration, persist_config=False)
        except Exception as error:  # its loaders and credential plugins raise anything
            raise UnansweredError(f"kubeconfig {path} cannot be used: {error}") from error
        return cls(configuration)

    @classmethod
    def of_endpoint(cls, url: str, authority: str, token: str) -> ClusterApi:
        """The API server at a URL, by its certificate authority (base64) and a token."""
        configuration = Configuration()
        document = {
            "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        kube_config.load_kube_config_from_dict(document, None, configuration, persist_config=False)
        return cls(configuration)

    def metadata(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Metadata of the object that has the document's name; None: there is none. Raises UnansweredError."""
        path = object_path(document)
        try:
            headers = {"Accept": "application/json", **self._authorization()}
            timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
            answer = self._pool.request("GET", self._server + path, headers=headers, timeout=timeout, retries=False)
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise UnansweredError(f"HTTP {answer.status} {answer.reason or ''} at {path}".replace("  ", " "))
            found = read_object(answer.data, MOST_BYTES).get("metadata")
        except (urllib3.exceptions.HTTPError, UnreadableJsonError) as error:
            raise UnansweredError(f"{self._server}: {error}") from error
        return found if isinstance(found, dict) else {}

    def _authorization(self) -> dict[str, str]:
        try:
            bearer = self._configuration.auth_settings().get("BearerToken")
        except Exception as error:  # credential plugins raise anything
            raise UnansweredError(f"no credentials: {error}") from error
        return {"Authorization": bearer["value"]} if bearer and bearer["value"] else {}


def object_path(document: Mapping[str, Any]) -> str:
    """Path of an object in the API; the plural of each kind that stacks have is regular."""
    metadata, version, kind = document["metadata"], document["apiVersion"], document["kind"].lower()
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
    return f"{root}{scope}/{plural}/{metadata['name']}"


def check_objects(
    api: ClusterApi, wanted: Iterable[KeyedObject], stack_tag: str, *, lost: bool, report: Report
) -> list[str]:
    """Report each object that is there and that this stack did not make. Returns what could not be asked, each once.

    An object of Pulumi's without the annotation is taken for this stack's. `lost`: the stack's state tells of no
    finished `up`, so that what Pulumi made is in the way as well.
    """
    unanswered: dict[str, None] = {}
    for each, answer in _asked(api, list(wanted)):
        if isinstance(answer, UnansweredError):
            unanswered[str(answer)] = None
        elif answer is not None and (whose := _whose(answer, stack_tag, lost=lost)):
            metadata = each.document["metadata"]
            name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
            report.add(each.path, f"{each.document['kind']} {name} exists in the cluster, and {whose}", REMEDY)
    return list(unanswered)


def definition_warnings(api: ClusterApi, names: Iterable[str]) -> list[str]:
    """CRDs of a Helm release: the stack takes them over, and that release may still delete them."""
    kinds = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    wanted = [KeyedObject("controller.manageCrds", {**kinds, "metadata": {"name": name}}) for name in names]
    return [
        f"{each.path}: CustomResourceDefinition {each.document['metadata']['name']} is of {release}, and the stack "
        "takes it over: while that release still has it, `helm uninstall` deletes it, all its objects and their nodes"
        for each, answer in _asked(api, wanted)
        if isinstance(answer, Mapping) and (release := _release(answer))
    ]


def _asked(
    api: ClusterApi, wanted: list[KeyedObject]
) -> Iterator[tuple[KeyedObject, Mapping[str, Any] | UnansweredError | None]]:
    """Each object with its answer. The first is asked alone: where nobody answers, nobody waits again."""

    def ask(each: KeyedObject) -> Mapping[str, Any] | UnansweredError | None:
        try:
            return api.metadata(each.document)
        except UnansweredError as error:
            return error

    if not wanted:
        return
    first = ask(wanted[0])
    yield wanted[0], first
    if isinstance(first, UnansweredError) and not str(first).startswith("HTTP 403"):
        return
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield from zip(wanted[1:], pool.map(ask, wanted[1:]), strict=True)


def _whose(metadata: Mapping[str, Any], stack_tag: str, *, lost: bool) -> str:
    """Whose the object is; empty: this stack's, as far as it shows."""
    managers = [each.get("manager") for each in metadata.get("managedFields") or () if isinstance(each, Mapping)]
    if not any(str(each).startswith(PULUMI) for each in managers):
        release = _release(metadata)
        return f"{release} made it" if release else "this stack did not make it"
    stack = (metadata.get("annotations") or {}).get(STACK_ANNOTATION, stack_tag)
    if stack != stack_tag:
        return f"stack {stack} made it"
    return "the state of the stack that made it is not here" if lost else ""


def _release(metadata: Mapping[str, Any]) -> str:
    annotations = metadata.get("annotations") or {}
    name = annotations.get(HELM_RELEASE)
    return f"Helm release {annotations.get(HELM_NAMESPACE, '')}/{name}" if name else ""
