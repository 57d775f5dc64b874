"""The resource types that the server knows: the built-in ones (a table) and those that CRDs register."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

# group/version | plural | kind | N(amespaced) or C(luster) | short names | categories | subresources
# As `kubectl api-resources -o wide` and discovery of kube-apiserver 1.34 list them.
_BUILT_IN = """
v1 configmaps ConfigMap N cm - -
v1 endpoints Endpoints N ep - -
v1 events Event N ev - -
v1 limitranges LimitRange N limits - -
v1 namespaces Namespace C ns - finalize,status
v1 nodes Node C no - status
v1 persistentvolumeclaims PersistentVolumeClaim N pvc - status
v1 persistentvolumes PersistentVolume C pv - status
v1 pods Pod N po all binding,ephemeralcontainers,eviction,log,resize,status
v1 podtemplates PodTemplate N - - -
v1 replicationcontrollers ReplicationController N rc all scale,status
v1 resourcequotas ResourceQuota N quota - status
v1 secrets Secret N - - -
v1 serviceaccounts ServiceAccount N sa - -
v1 services Service N svc all status
apiregistration.k8s.io/v1 apiservices APIService C - api-extensions status
apps/v1 controllerrevisions ControllerRevision N - - -
apps/v1 daemonsets DaemonSet N ds all status
apps/v1 deployments Deployment N deploy all scale,status
apps/v1 replicasets ReplicaSet N rs all scale,status
apps/v1 statefulsets StatefulSet N sts all scale,status
events.k8s.io/v1 events Event N ev - -
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler N hpa all status
batch/v1 cronjobs CronJob N cj all status
batch/v1 jobs Job N - all status
certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest C csr - approval,status
networking.k8s.io/v1 ingressclasses IngressClass C - - -
networking.k8s.io/v1 ingresses Ingress N ing - status
networking.k8s.io/v1 networkpolicies NetworkPolicy N netpol - -
policy/v1 poddisruptionbudgets PodDisruptionBudget N pdb - status
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding C - - -
rbac.authorization.k8s.io/v1 clusterroles ClusterRole C - - -
rbac.authorization.k8s.io/v1 rolebindings RoleBinding N - - -
rbac.authorization.k8s.io/v1 roles Role N - - -
storage.k8s.io/v1 csidrivers CSIDriver C - - -
storage.k8s.io/v1 csinodes CSINode C - - -
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity N - - -
storage.k8s.io/v1 storageclasses StorageClass C sc - -
storage.k8s.io/v1 volumeattachments VolumeAttachment C - - status
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration C - api-extensions -
admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy C - api-extensions status
admissionregistration.k8s.io/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding C - api-extensions -
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration C - api-extensions -
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition C crd,crds api-extensions status
scheduling.k8s.io/v1 priorityclasses PriorityClass C pc - -
coordination.k8s.io/v1 leases Lease N - - -
node.k8s.io/v1 runtimeclasses RuntimeClass C - - -
discovery.k8s.io/v1 endpointslices EndpointSlice N - - -
flowcontrol.apiserver.k8s.io/v1 flowschemas FlowSchema C - - status
flowcontrol.apiserver.k8s.io/v1 prioritylevelconfigurations PriorityLevelConfiguration C - - status
"""

StorageKey = tuple[str, str]
"""(group, plural): where objects of a resource are kept, whichever version a client asks for."""

# events.k8s.io/v1 and v1 events are two views of one thing.
_SHARED_STORAGE: dict[StorageKey, StorageKey] = {("events.k8s.io", "events"): ("", "events")}


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource type in one version, as discovery announces it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    list_kind: str = ""
    custom: bool = False

    @property
    def group_version(self) -> str:
        """`v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage_key(self) -> StorageKey:
        """Where its objects are kept."""
        key = (self.group, self.plural)
        return _SHARED_STORAGE.get(key, key)

    @property
    def verbs(self) -> tuple[str, ...]:
        """What discovery says can be done with it. A collection of namespaces is not deleted in one call."""
        if self.storage_key == ("", "namespaces"):
            return tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
        return ALL_VERBS


class Registry:
    """All resource types by group, version and plural. CRDs add and take away theirs while the server runs."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self.generation = 0
        for resource in _built_in():
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Makes a resource type appear (or replaces it)."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Takes away every version of a resource type."""
        for path in [path for path in self._by_path if (path[0], path[2]) == (group, plural)]:
            del self._by_path[path]
        self.generation += 1

    def get(self, group: str, version: str, plural: str) -> Resource | None:
        """The type under that path, or None."""
        return self._by_path.get((group, version, plural))

    def by_kind(self, group: str, kind: str) -> Resource | None:
        """The type of that kind in whichever version (owner references and webhooks name kinds)."""
        return next((r for r in self if r.group == group and r.kind == kind), None)

    def by_storage_key(self, key: StorageKey) -> Resource | None:
        """One type whose objects are kept under `key`."""
        return next((r for r in self if r.storage_key == key and (r.group, r.plural) == key), None)

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._by_path.values()))

    def group_versions(self) -> list[tuple[str, str]]:
        """(group, version) pairs in the order of registration, without repeats."""
        return list(dict.fromkeys((r.group, r.version) for r in self))

    def of(self, group: str, version: str) -> list[Resource]:
        """The types of one group version, by plural."""
        return sorted((r for r in self if (r.group, r.version) == (group, version)), key=lambda r: r.plural)


def _built_in() -> Iterable[Resource]:
    for line in _BUILT_IN.split("\n"):
        if not line:
            continue
        group_version, plural, kind, scope, short, categories, subresources = line.split()
        group, _, version = group_version.rpartition("/")
        yield Resource(
            group=group,
            version=version,
            plural=plural,
            kind=kind,
            namespaced=scope == "N",
            singular=kind.lower(),
            short_names=_words(short),
            categories=_words(categories),
            subresources=frozenset(_words(subresources)),
            list_kind=f"{kind}List",
        )


def _words(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))
