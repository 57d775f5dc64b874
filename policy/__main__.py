"""What Pulumi runs: the pack serves its policies to the engine."""

import sys
from pathlib import Path

from pulumi_policy import PolicyPack

sys.path.insert(0, str(Path(__file__).parents[1]))

from policy.pack import NAME, policies

PolicyPack(name=NAME, policies=policies())
