"""Writes docs/reference/output.md and output.schema.json: what `-o json` and `-o yaml` of each command hold.

uv run python scripts/output_reference.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
Schema = dict[str, Any]


def _text(doc: str) -> Schema:
    return {"type": "string", "description": doc}


def _number(doc: str) -> Schema:
    return {"type": "number", "description": doc}


def _whole(doc: str) -> Schema:
    return {"type": "integer", "description": doc}


def _truth(doc: str) -> Schema:
    return {"type": "boolean", "description": doc}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _list(doc: str, items: Schema | str) -> Schema:
    return {"type": "array", "description": doc, "items": _of(items)}


def _map(doc: str, values: Schema | str) -> Schema:
    return {"type": "object", "description": doc, "additionalProperties": _of(values)}


def _ref(doc: str, name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}", "description": doc}


def _of(values: Schema | str) -> Schema:
    """A name is that of a definition, or of a simple type."""
    if isinstance(values, dict):
        return values
    return {"type": values} if values in ("string", "number", "integer") else {"$ref": f"#/$defs/{values}"}


def _object(doc: str, *, optional: tuple[str, ...] = (), more: bool = False, **members: Schema) -> Schema:
    """An object with these members, camel case as in the call, all there but the optional ones."""
    names = {_camel(name): schema for name, schema in members.items()}
    left_out = {_camel(name) for name in optional}
    return {
        "type": "object",
        "description": doc,
        "properties": names,
        "required": [name for name in names if name not in left_out],
        "additionalProperties": more,
    }


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


HOUR, MONTH = "$ an hour", "$ a month of 730 hours"
NOTES = _list("Remarks, such as where prices come from.", "string")
OFFERING: dict[str, Any] = {
    "instance_type": _text("EC2 instance type."),
    "zone": _text("Availability zone."),
    "capacity_type": _text("`spot` or `on-demand`."),
}
DEFINITIONS: dict[str, Schema] = {
    "simulation": _object(
        "`nodeless simulate`: a plan.",
        optional=("gap",),
        name=_text("Name of the configuration: that of its file."),
        summary=_ref("Its figures.", "summary"),
        gap=_ref("With `--gap`: what explains the distance to the lower bound.", "gap"),
        nodes=_list("Nodes to launch.", "plannedNode"),
        existing=_list("Pods on nodes that there are.", "placed"),
        unplaced=_list("Pods without a place.", "unplaced"),
        costs=_ref("The new nodes' price by workload.", "costs"),
        services=_list("Services that ask for traffic inside zones, once the plan is carried out.", "service"),
        notes=NOTES,
    ),
    "comparison": _object(
        "`nodeless simulate --compare`: two plans.",
        difference=_map("After less before, of each figure of `summary` that both have.", "number"),
        before=_ref("The plan of the present configuration.", "simulation"),
        after=_ref("The plan of the changed one.", "simulation"),
    ),
    "summary": _object(
        "Figures of a plan.",
        pods=_whole("Pods that were to be placed."),
        unplaced=_whole("Pods without a place."),
        placed_on_nodes_there_are=_whole("Pods on nodes that there are."),
        new_nodes=_whole("Nodes to launch."),
        new_nodes_by_capacity_type=_map("Their number by capacity type.", "integer"),
        price_per_hour=_number(f"Their price: {HOUR}."),
        price_per_month=_number(f"The same: {MONTH}."),
        expected_price_per_hour=_number(f"Their price as EC2 is expected to choose among the offerings named: {HOUR}."),
        cost_per_hour=_number(f"All that plans minimise, price included: {HOUR}."),
        lower_bound_per_hour=_number(f"A cost below which no plan is: {HOUR}."),
        cost_over_lower_bound=_or_null(_number("Cost over bound.")),
        optimal=_or_null(_truth("Whether no plan costs less, spreading aside; null: not known.")),
        gap_to_optimum=_or_null(_number("Proven distance to the cheapest plan, as a share; null: not known.")),
        nodes_there_are_price_per_hour=_or_null(_number(f"Price of the nodes that there are: {HOUR}.")),
    ),
    "gap": _object(
        "The distance of a plan to its lower bound, by cause.",
        price_per_hour=_number(f"{HOUR}."),
        cost_per_hour=_number(f"{HOUR}."),
        expected_price_per_hour=_number(f"{HOUR}."),
        lower_bound_per_hour=_number(f"{HOUR}."),
        parts=_list("Causes; they add up to cost less bound.", "gapPart"),
        flexibility=_ref("Expected price less price.", "gapPart"),
    ),
    "gapPart": _object(
        "What one cause adds.",
        cause=_text("Name of the cause."),
        price_per_hour=_number(f"{HOUR}; slightly negative where the search did better with the rule."),
        text=_text("The cause in words."),
    ),
    "plannedNode": _object(
        "A node to launch.",
        provisioner=_text("Name of its Provisioner."),
        **OFFERING,
        price_per_hour=_number(f"{HOUR}."),
        price_per_month=_number(f"{MONTH}."),
        cost_per_hour=_number(f"With what a node costs beside its price: {HOUR}."),
        surplus_per_hour=_number(f"CPU beyond a burstable type's baseline: {HOUR}."),
        pods=_list("NAMESPACE/NAME.", "string"),
        requests=_map("Sum of their requests, DaemonSets included: quantities by resource.", "string"),
        allocatable=_map("Quantities by resource.", "string"),
        expected_price_per_hour=_number(f"{HOUR}."),
        runner_up={"anyOf": [{"$ref": "#/$defs/offering"}, {"type": "null"}], "description": "The next best, if any."},
        alternatives=_whole("Offerings that hold the same pods."),
        reason=_text("Why this one."),
    ),
    "offering": _object(
        "Something that can be launched.", **OFFERING,
        price_per_hour=_number(f"{HOUR}."), cost_per_hour=_number(f"{HOUR}."),
    ),
    "placed": _object(
        "Pods on a node that there is.",
        node=_text("Its name."), pods=_list("NAMESPACE/NAME.", "string"), reason=_text("Why there."),
    ),
    "unplaced": _object("A pod without a place.", pod=_text("NAMESPACE/NAME."), reason=_text("Why.")),
    "costs": _object(
        "`nodeless cost`: the price of nodes by workload.",
        price_per_hour=_number(f"All nodes: {HOUR}."),
        idle_per_hour=_number(f"What no pod requests: {HOUR}."),
        daemon_sets_per_hour=_number(f"{HOUR}."),
        workloads=_list("Workloads.", "workloadCost"),
        unpriced_nodes=_list("Nodes of unknown price, left out.", "string"),
    ),
    "workloadCost": _object(
        "A workload's share.",
        namespace=_text("Namespace."), workload=_text("Name of it, or of a pod without one."),
        pods=_whole("Its pods on nodes."),
        price_per_hour=_number(f"{HOUR}."), price_per_month=_number(f"{MONTH}."),
    ),
    "service": _object(
        "A Service that asks for traffic inside zones.",
        service=_text("NAMESPACE/NAME."), routing=_text("The setting by which it asks."),
        kept=_truth("Whether its traffic stays inside zones."), verdict=_text("Why, or why not."),
        endpoints=_map("Ready endpoints by zone.", "integer"), lent=_list("Endpoints lent to other zones.", "loan"),
        remedies=_list("What would help.", "string"),
    ),
    "loan": _object(
        "Endpoints lent.", from_=_text("Zone."), to=_text("Zone."), endpoints=_whole("How many."),
    ),
    "explanation": _object(
        "`nodeless explain`: an answer.",
        subject=_text("What was asked about."), verdict=_text("The answer in a sentence."),
        facts=_map("Texts by name; names in camel case.", "string"),
        reasons=_map("Lines by section; titles in camel case (`whyAndWhatWouldHelp`).",
                     {"type": "array", "items": {"type": "string"}}),
        notes=NOTES,
    ),
    "view": _object(
        "`nodeless view`: the cluster as it is.",
        summary=_ref("Its figures.", "viewSummary"),
        nodes=_list("Nodes that were chosen.", "node"),
        waiting=_list("Pending pods by workload.", "waiting"),
        costs={"anyOf": [{"$ref": "#/$defs/costs"}, {"type": "null"}], "description": "The nodes' price by workload."},
        limits=_list("Limits and minimums.", "limit"),
        decisions=_list("The newest decisions of the ledger, oldest first.", "decision"),
        notes=NOTES,
    ),
    "viewSummary": _object(
        "Figures of the nodes that were chosen.",
        nodes=_whole("Their number."), nodes_by_capacity_type=_map("Their number by capacity type.", "integer"),
        pods=_whole("Pods on them."), waiting=_whole("Pending pods."), price_per_hour=_number(f"{HOUR}."),
        price_per_month=_number(f"{MONTH}."), nodes_of_unknown_price=_whole("Not in the sums."),
        use=_map("Requested over allocatable, by resource.", "number"),
    ),
    "node": _object(
        "A node.",
        name=_text("Its name."), **OFFERING, owner=_text("Its Provisioner, or what made it."),
        state=_text("Ready, or what it is about."), age_seconds=_whole("Seconds since it was made."),
        pods=_whole("Pods on it."), pods_allocatable=_whole("Pods that it may have."),
        price_per_hour=_or_null(_number(f"{HOUR}; null: unknown.")),
        price_per_month=_or_null(_number(f"{MONTH}; null: unknown.")),
        requested=_map("Quantities by resource.", "string"), allocatable=_map("Quantities by resource.", "string"),
        use=_map("Requested over allocatable, by resource.", "number"),
    ),
    "waiting": _object(
        "Pending pods of a workload, for one reason.",
        workload=_text("NAMESPACE/NAME of it."), pods=_whole("Their number."),
        reason=_text("Why they wait."),
    ),
    "limit": _object(
        "A limit that `have` stays below, or a minimum that it should reach.",
        owner=_text("A Provisioner, or all."), what=_text("Of what."), have=_text("Used."), want=_text("The limit."),
        share=_or_null(_number("Used over limit.")), state=_text("`ok`, `binds`, `full`, `short` or `unreadable`."),
        reason=_text("Why, where it is short or cannot be read; else empty."),
    ),
    "decision": _object(
        "A decision of the ledger; what is empty is left out.",
        optional=("method", "action", "subject", "provisioner", "reason", "inputs", "price_per_hour_before",
                  "price_per_hour_after", "pods", "pod_count", "details", "times", "last_at"),
        more=True,
        number=_whole("It grows."), at=_number("Unix seconds."), kind=_text("Such as `launch`, `remove`, `skip`."),
        method=_text("Such as `provisioning`, `consolidation`."), action=_text("What is done."),
        subject=_text("KIND/NAME."), provisioner=_text("Name."), reason=_text("Why."),
        inputs=_text("Digest of what it was decided on."), price_per_hour_before=_number(f"{HOUR}."),
        price_per_hour_after=_number(f"{HOUR}."), pods=_list("Pods it is about.", "string"),
        pod_count=_whole("Their number."), details=_map("More, by name.", {}), times=_whole("How often, if repeated."),
        last_at=_number("Unix seconds of the last time."),
    ),
    "findings": _object(
        "`nodeless check`: what was found.",
        summary=_map("Numbers by level: `ok`, `warning`, `problem`, `unknown`.", "integer"),
        findings=_list("All that was checked.", "finding"),
    ),
    "finding": _object(
        "One result.", optional=("remedy",),
        level=_text("`ok`, `warning`, `problem` or `unknown`."), subject=_text("What was checked."),
        text=_text("The result."), remedy=_text("What mends it."),
    ),
    "rebalance": _object(
        "`nodeless rebalance --plan`: steps to a cheaper fleet.",
        version=_whole("Of this form; `--apply` reads it."),
        cost_per_hour_before=_number(f"{HOUR}."), cost_per_hour_after=_number(f"{HOUR}."),
        lower_bound_per_hour=_number(f"{HOUR}."), saved_per_month=_number(f"{MONTH}."),
        pods_moved=_whole("Pods that move, each once."), steps=_list("In order.", "step"),
        stays=_list("Nodes that must stay.", "stay"),
    ),
    "step": _object(
        "Nodes that go together.",
        removes=_list("Nodes that go.", "removal"), launches=_list("Nodes that are launched before.", "launch"),
        moves=_list("Pods that move.", "move"), saved_per_hour=_number(f"{HOUR}."),
        cost_per_hour_after=_number(f"Of the fleet, if you stop here: {HOUR}."),
        waits_for_pod_disruption_budgets=_list("Budgets that a drain waits for.", "string"),
    ),
    "removal": _object(
        "A node that goes.",
        node=_text("Its name."), uid=_text("Its uid."), pods=_list("Hashes of its pods' uids.", "string"),
        provisioner=_text("Name."), instance_type=OFFERING["instance_type"],
        capacity_type=OFFERING["capacity_type"], cost_per_hour=_number(f"{HOUR}."),
    ),
    "launch": _object(
        "A node that is launched.",
        name=_text("What moves call it."), provisioner=_text("Name."), **OFFERING, cost_per_hour=_number(f"{HOUR}."),
    ),
    "move": _object("A pod that moves.", pod=_text("NAMESPACE/NAME."), from_=_text("Node."), to=_text("Node.")),
    "stay": _object("A node that must stay.", node=_text("Its name."), reason=_text("Why.")),
    "approvals": _object(
        "`nodeless rebalance --status`: how far approved plans have come.",
        plans=_list("Those with nodes that are there still, the latest first.", "approvedPlan"),
    ),
    "approvedPlan": _object(
        "A plan that was approved.",
        plan=_text("Its id."), approved=_text("When."), steps=_whole("In all."), nodes=_whole("In all."),
        gone=_whole("Nodes that are gone."), left=_list("Nodes that are there still.", "nodeLeft"),
    ),
    "nodeLeft": _object(
        "A node of an approved plan.",
        node=_text("Its name."), step=_whole("Which step removes it, from 1."),
        state=_text("`waits`, `is being removed`, `is being drained`, or `stays: ` and why."),
    ),
}  # fmt: skip
INTRODUCTION = """What `-o json` prints on standard output, and `-o yaml` in YAML. `scripts/output_reference.py` wrote
this page, and a test holds what the commands print against the same definitions, which are
[JSON Schema](output.schema.json) for programs. Member names are in camel case and are kept
([promises](../promises.md#the-command-line)); new ones may come."""
COMMANDS = {
    "simulate": "simulation",
    "simulate --compare": "comparison",
    "rebalance --plan": "rebalance",
    "rebalance --status": "approvals",
    "explain": "explanation",
    "view": "view",
    "cost": "costs",
    "check": "findings",
}
"""Commands with `-o json`, and the definition of what they print."""


def schema() -> Schema:
    """The JSON Schema; each command's document is one of its definitions."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "nodeless -o json",
        "$defs": DEFINITIONS,
    }


def _type(member: Schema) -> str:
    if "anyOf" in member:
        return " or ".join(_type(each) for each in member["anyOf"])
    if "$ref" in member:
        name = member["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if member.get("type") == "array":
        return f"list of {_type(member['items'])}"
    if member.get("type") == "object" and "properties" not in member:
        return f"map of {_type(member['additionalProperties'])}"
    types = member.get("type", "any")
    return types if isinstance(types, str) else " or ".join(types)


def _lines() -> Iterator[str]:
    yield "# JSON of the commands"
    yield ""
    yield INTRODUCTION
    yield ""
    yield "| command | document |"
    yield "|---|---|"
    for command, name in COMMANDS.items():
        yield f"| `nodeless {command}` | [{name}](#{name.lower()}) |"
    for name, definition in DEFINITIONS.items():
        yield ""
        yield f"## {name}"
        yield ""
        yield definition["description"]
        yield ""
        yield "| member | type | |"
        yield "|---|---|---|"
        for member, each in definition["properties"].items():
            absent = "" if member in definition["required"] else ", may be absent"
            yield f"| `{member}` | {_type(each)}{absent} | {each['description']} |"


def page() -> str:
    """docs/reference/output.md."""
    return "\n".join(_lines()) + "\n"


def schema_text() -> str:
    """docs/reference/output.schema.json."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write both."""
    (FOLDER / "output.md").write_text(page())
    (FOLDER / "output.schema.json").write_text(schema_text())


if __name__ == "__main__":
    main()
