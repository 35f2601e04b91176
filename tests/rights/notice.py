"""Sends an event of EC2 or AWS Health to the event bus of the AWS API at a URL: notice.py URL SOURCE DETAIL-TYPE DETAIL."""
import sys

import boto3

url, source, detail_type, detail = sys.argv[1:]
entry = {"Source": source, "DetailType": detail_type, "Detail": detail}
answer = boto3.client("events", endpoint_url=url).put_events(Entries=[entry])
assert answer["FailedEntryCount"] == 0, answer
