"""AWS on one machine: moto, and a thin layer for what moto lacks and the product needs.

    with serve(AwsSettings(cluster="demo")) as aws:
        aws.client("ec2").describe_instance_types()

`python -m sandbox.aws` runs it as a process of its own.
"""

from sandbox.aws.ec2.instances import Delays
from sandbox.aws.server import Aws, serve
from sandbox.aws.world import AwsSettings

__all__ = ["Aws", "AwsSettings", "Delays", "serve"]
