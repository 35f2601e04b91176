"""Reads PromQL expressions, one per line, and prints the metrics and labels of each as JSON.

Exits with status 1 and the parser's error if an expression is invalid. Part of tests/monitoring.rs.
"""
import json
import sys

import promql_parser as promql


def visit(node, found):
    if isinstance(node, promql.VectorSelector):
        matchers = node.matchers.matchers
        found["selectors"].append({"metric": node.name, "labels": [one.name for one in matchers]})
    elif isinstance(node, promql.MatrixSelector):
        visit(node.vector_selector, found)
    elif isinstance(node, promql.AggregateExpr):
        if node.modifier is not None:
            found["grouped"].extend(node.modifier.labels)
        visit(node.expr, found)
    elif isinstance(node, promql.BinaryExpr):
        visit(node.lhs, found)
        visit(node.rhs, found)
    elif isinstance(node, promql.Call):
        for argument in node.args:
            visit(argument, found)
    elif isinstance(node, (promql.ParenExpr, promql.SubqueryExpr, promql.UnaryExpr)):
        visit(node.expr, found)
    elif not isinstance(node, (promql.NumberLiteral, promql.StringLiteral)):
        raise SystemExit(f"an expression of an unknown kind: {type(node).__name__}")


answers = []
for expression in sys.stdin.read().splitlines():
    answer = {"selectors": [], "grouped": []}
    try:
        visit(promql.parse(expression), answer)
    except ValueError as error:
        raise SystemExit(f"{expression}: {error}") from error
    answers.append(answer)
print(json.dumps(answers))
