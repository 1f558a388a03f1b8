"""The workgroup of Amazon Athena that runs the queries of service.yml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kedro_lakehouse.config.service import QueryConfig

_THERE: Final = "primary"
"""The workgroup that every account has."""


def workgroup_resources(query: QueryConfig) -> dict[str, Any]:
    """The workgroup, where queries run on Athena in one of their own; its results are encrypted.

    It does not enforce its place of results: each query names one below the folder of its role. What a query
    may read at most holds for all of its queries, those of others too.
    """
    if query.engine != "athena" or query.workgroup == _THERE:
        return {}
    result = {
        "OutputLocation": f"{query.output.rstrip('/')}/",
        "EncryptionConfiguration": {"EncryptionOption": "SSE_S3"},
    }
    settings = {
        "EnforceWorkGroupConfiguration": False,
        "PublishCloudWatchMetricsEnabled": True,
        "BytesScannedCutoffPerQuery": query.scanned,
        "EngineVersion": {"SelectedEngineVersion": "Athena engine version 3"},
        "ResultConfiguration": result,
    }
    properties = {"Name": query.workgroup, "State": "ENABLED", "WorkGroupConfiguration": settings}
    return {"QueryWorkGroup": {"Type": "AWS::Athena::WorkGroup", "Properties": properties}}
