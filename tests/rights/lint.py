"""Says as JSON what parliament finds wrong with a policy: lint.py DOCUMENT. Part of tests/contract/rights.rs.

It looks in each statement for every kind of resource that an action needs. These actions have theirs in several statements, with
other conditions (launches), in public parameters, which have no account, or below a path of profiles, which it does not know.

ARC knows load balancers as resources, and no EKS clusters; a condition names the cluster.
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
