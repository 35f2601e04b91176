"""Prints the roles, policies, queues and rules of the AWS API at a URL as JSON: facts.py URL. Part of tests/contract/rights.rs."""
import json
import sys

import boto3

url = sys.argv[1]
iam, sqs, events = (boto3.client(name, endpoint_url=url) for name in ("iam", "sqs", "events"))


def read(document):
    # moto encodes a policy document twice if the template has it as a string.
    while isinstance(document, str):
        document = json.loads(document)
    return document


def role(found):
    name = found["RoleName"]
    attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
    return {
        "trust": read(found["AssumeRolePolicyDocument"]),
        "policies": sorted(one["PolicyName"] for one in attached),
    }


def policy(found):
    version = iam.get_policy_version(PolicyArn=found["Arn"], VersionId=found["DefaultVersionId"])
    return read(version["PolicyVersion"]["Document"])


def rule(found):
    targets = events.list_targets_by_rule(Rule=found["Name"])["Targets"]
    return {"pattern": read(found["EventPattern"]), "targets": [one["Arn"] for one in targets]}


urls = sqs.list_queues().get("QueueUrls", [])
print(
    json.dumps(
        {
            "roles": {one["RoleName"]: role(one) for one in iam.list_roles()["Roles"]},
            "policies": {one["PolicyName"]: policy(one) for one in iam.list_policies(Scope="Local")["Policies"]},
            "queues": [sqs.get_queue_attributes(QueueUrl=one, AttributeNames=["All"])["Attributes"] for one in urls],
            "rules": [rule(one) for one in events.list_rules()["Rules"]],
        }
    )
)
