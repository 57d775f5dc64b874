"""The Price List API's GetProducts for EC2, from the sandbox's price list.

Source: "Price List Query API" (TERM_MATCH filters are and-ed, PriceList items are JSON strings, 100 a page).
"""

from __future__ import annotations

import json
from typing import Any

from sandbox.aws.market.market import Market
from sandbox.aws.paging import page
from sandbox.aws.wire import AwsError, Params


class Pricing:
    """GetProducts over the instance types of `region`."""

    def __init__(self, region: str, market: Market, types: dict[str, dict[str, Any]]) -> None:
        self._region = region
        self._market = market
        self._types = types

    def get_products(self, params: Params) -> Params:
        """Raises InvalidParameterException for another service or filter type."""
        if params.get("ServiceCode") != "AmazonEC2":
            raise AwsError("InvalidParameterException", f"Unknown service code {params.get('ServiceCode')}")
        wanted = {}
        for one in params.get("Filters", []):
            if one.get("Type") != "TERM_MATCH":
                raise AwsError("InvalidParameterException", f"Filter type {one.get('Type')} is not supported")
            wanted[one["Field"]] = one["Value"]
        found = [item for item in self._products() if all(item.get(key) == value for key, value in wanted.items())]
        some, token = page(found, params, default_size=100, largest=100, error_code="InvalidNextTokenException")
        answer: Params = {"FormatVersion": "aws_v1", "PriceList": [self._document(item) for item in some]}
        return answer | ({"NextToken": token} if token else {})

    def _products(self) -> list[dict[str, str]]:
        products = []
        for name in sorted(self._types):
            price = self._market.on_demand(name)
            if price is None:
                continue
            metal = bool(self._types[name].get("BareMetal"))
            tenancies = [("Dedicated", price)] if metal else [("Shared", price), ("Dedicated", round(price * 1.1, 5))]
            for tenancy, dollars in tenancies:
                products.append(self._attributes(name, metal, tenancy, dollars))
        return products

    def _attributes(self, name: str, metal: bool, tenancy: str, dollars: float) -> dict[str, str]:
        entry = self._types[name]
        return {
            "instanceType": name, "regionCode": self._region, "servicecode": "AmazonEC2", "serviceCode": "AmazonEC2",
            "servicename": "Amazon Elastic Compute Cloud", "locationType": "AWS Region", "operatingSystem": "Linux",
            "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand", "tenancy": tenancy,
            "productFamily": "Compute Instance (bare metal)" if metal else "Compute Instance",
            "vcpu": str(entry["VCpuInfo"]["DefaultVCpus"]),
            "memory": f"{entry['MemoryInfo']['SizeInMiB'] / 1024:g} GiB",
            "licenseModel": "No License required", "operation": "RunInstances", "dollars": f"{dollars:.10f}",
        }  # fmt: skip

    def _document(self, product: dict[str, str]) -> str:
        attributes = {k: v for k, v in product.items() if k not in {"dollars", "productFamily", "serviceCode"}}
        sku = f"{product['instanceType']}-{product['tenancy']}".upper().replace(".", "")
        dimension = {
            "unit": "Hrs", "beginRange": "0", "endRange": "Inf", "appliesTo": [],
            "rateCode": f"{sku}.JRTCKXETXF.6YS6EN2CT7",
            "description": f"${product['dollars']} per On Demand Linux {product['instanceType']} Instance Hour",
            "pricePerUnit": {"USD": product["dollars"]},
        }  # fmt: skip
        term = {"sku": sku, "offerTermCode": "JRTCKXETXF", "effectiveDate": "2025-03-01T00:00:00Z",
                "termAttributes": {},
                "priceDimensions": {dimension["rateCode"]: dimension}}  # fmt: skip
        return json.dumps(
            {
                "product": {"productFamily": product["productFamily"], "attributes": attributes, "sku": sku},
                "serviceCode": "AmazonEC2",
                "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
                "version": "20250302000000",
                "publicationDate": "2025-03-02T00:00:00Z",
            }
        )
