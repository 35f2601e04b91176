"""Prints the findings of parliament for a policy as JSON: lint.py DOCUMENT. Part of tests/contract/rights.rs.

parliament expects in each statement every resource type that an action needs. Some actions have their resources in several statements
with other conditions (launches), in public parameters, which have no account, or below a path of instance profiles, which parliament does
not support.

parliament has load balancers as resources of ARC, but no EKS clusters. A condition names the cluster.
"""
import json
import sys

import parliament

SPREAD = {"ec2:CreateFleet", "ec2:RunInstances", "iam:ListInstanceProfiles", "ssm:GetParameter"}


WITHOUT_RESOURCE = ["arc-zonal-shift:GetManagedResource"]


def is_known(finding):
    if finding.issue == "RESOURCE_STAR":
        return finding.detail == WITHOUT_RESOURCE
    return finding.issue == "RESOURCE_MISMATCH" and all(one["action"] in SPREAD for one in finding.detail)


findings = parliament.analyze_policy_string(sys.argv[1]).findings
print(json.dumps([str(finding) for finding in findings if not is_known(finding)]))
