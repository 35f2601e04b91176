"""Creates a stack of the template with the AWS API at a URL: stack.py URL TEMPLATE PARAMETER=VALUE... Part of tests/contract/rights.rs.

moto 5.2.5 requires the document of a managed policy as an object, while CloudFormation also accepts a string. This script substitutes these
strings. moto receives everything else as in the template.
"""
import json
import re
import sys

import boto3
import yaml
from moto.cloudformation.utils import yaml_tag_constructor

url, template, *parameters = sys.argv[1:]
given = dict(one.split("=", 1) for one in parameters)
yaml.add_multi_constructor("", yaml_tag_constructor)
with open(template, encoding="utf-8") as file:
    # As in moto: YAML parsers do not support the tags of CloudFormation.
    content = yaml.load(file, Loader=yaml.Loader)
words = {
    "ClusterName": given["ClusterName"],
    "NodeRole": given.get("NodeRoleName") or "KarpenterNodeRole-" + given["ClusterName"],
    "Queue.QueueName": given["ClusterName"],
    "AWS::Region": "us-west-2",
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
}
for resource in content["Resources"].values():
    if resource["Type"] == "AWS::IAM::ManagedPolicy":
        text = resource["Properties"]["PolicyDocument"]["Fn::Sub"]
        filled = re.sub(r"\$\{([^}]+)\}", lambda found: words[found[1]], text)
        resource["Properties"]["PolicyDocument"] = json.loads(filled)
cloudformation = boto3.client("cloudformation", endpoint_url=url)
cloudformation.create_stack(
    StackName="rights",
    TemplateBody=json.dumps(content),
    Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
    Capabilities=["CAPABILITY_NAMED_IAM"],
)
stack = cloudformation.describe_stacks(StackName="rights")["Stacks"][0]
print(json.dumps({"status": stack["StackStatus"], "outputs": {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}}))
