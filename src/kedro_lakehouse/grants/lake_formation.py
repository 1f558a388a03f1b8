"""The grants of grants.yml in Lake Formation: what differs there, and the calls that make it alike.

What Lake Formation lists is compared with what the file says: what it lacks is granted, and what no grant
says any longer is revoked, one right by one. Of principals that the file does not name nothing is touched,
but for ``IAM_ALLOWED_PRINCIPALS`` on the project's own databases: as long as that group has a right on a
table, everybody is let in whom IAM lets in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from kedro_lakehouse.aws import Service, client, code_of
from kedro_lakehouse.errors import AwsRefusedError, UnsupportedError
from kedro_lakehouse.grants.rights import (
    FILTER_PREFIX,
    TAG_PREFIX,
    TAG_VALUES,
    Right,
    WantedRights,
    filter_resource,
    lf_tag,
    some_columns,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

EVERYBODY: Final = "IAM_ALLOWED_PRINCIPALS"
"""The group of all whom IAM lets in."""
_DEFAULTS: Final = ("CreateDatabaseDefaultPermissions", "CreateTableDefaultPermissions")
"""What Lake Formation gives to principals on each new database and table."""
_TO: Final = {"grant": "to", "revoke": "from"}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of boto3's client of Lake Formation, and what it does in words."""

    words: str
    operation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class GrantPlan:
    """What differs between grants.yml and Lake Formation.

    Attributes:
        steps: The calls that make them alike, in their order: what is revoked comes before what is granted.
        absent: Declared tables that the catalog does not have yet; the next plan has their grants.
        local: Roles without a principal: they are for this machine only.
        ends_iam_only: Whether everybody loses what IAM alone gives: jobs then need rights of their own.
    """

    steps: Sequence[Step]
    absent: Sequence[str]
    local: Sequence[str]
    ends_iam_only: bool


class LakeFormation:
    """The rights of a project's roles in Lake Formation, in the account and region of the environment.

    Raises:
        UnsupportedError: The tables of the environment are not in Glue.
    """

    def __init__(self, project: Project) -> None:
        """Refuse an environment without Lake Formation; nothing is called yet."""
        if not project.catalog.is_glue:
            raise UnsupportedError(
                what=f"The environment '{project.env}' has no Lake Formation: its tables are not in Glue.",
                remedy="Name one that has: `kedro lakehouse grants plan --env aws`. Without it, "
                "`kedro lakehouse sql --as ROLE` shows what a role may see.",
            )
        self._project = project
        self._clients: dict[Service, Any] = {}

    def plan(self) -> GrantPlan:
        """Compare grants.yml with Lake Formation; nothing is changed.

        Raises:
            AwsRefusedError: AWS does not tell what there is.
            ConfigurationError: A grant names a column that its table has not.
        """
        databases = [one["Name"] for one in self._listed("glue", "get_databases", "DatabaseList")]
        columns, account = self._columns(databases), self._identity["Account"]
        wanted = WantedRights(project=self._project, account=account, columns=columns, databases=databases)
        there, settings, rights = self._rights_there(), list(self._settings()), wanted.rights()
        # A right that may be passed on is revoked whole: if it is to stay, it is granted again.
        whole = {replace(right, passes_on=False) for right in there if right.passes_on}
        surplus = {r: resource for r, resource in there.items() if r not in rights.keys() | whole}
        lacking = {r: resource for r, resource in rights.items() if r not in there.keys() - whole}
        steps = [
            *self._location(),
            *settings,
            *(_changed("revoke", right, surplus[right]) for right in sorted(surplus)),
            *self._filters(wanted),
            *self._tags(wanted),
            *(_changed("grant", right, lacking[right]) for right in sorted(lacking)),
        ]
        grants = self._project.grants
        return GrantPlan(
            steps=steps,
            absent=[str(name) for name in self._stored() if name not in columns],
            local=[role for role in grants.roles if role not in grants.principals],
            ends_iam_only=bool(settings) or any(right.principal == EVERYBODY for right in surplus),
        )

    def apply(self, plan: GrantPlan) -> None:
        """Make the calls of a plan, in their order.

        Raises:
            AwsRefusedError: AWS refuses one: those before it are done, and the next plan has the others.
        """
        for step in plan.steps:
            answer = self._call("lakeformation", step.operation, step.words, **step.arguments)
            if failures := answer.get("Failures"):
                raise AwsRefusedError(what=f"leave to {step.words}", reason=failures[0]["Error"]["ErrorCode"])

    def _stored(self) -> Iterator[TableName]:
        """The tables that roles read, as they are stored."""
        for name, table in self._project.declarations.tables.items():
            if table.current:
                yield name
            if table.history is not None:
                yield name.with_suffix("history")

    def _columns(self, databases: Sequence[str]) -> dict[TableName, Sequence[str]]:
        """The columns of the stored tables that are in Glue, of every format."""
        found: dict[TableName, Sequence[str]] = {}
        for namespace in sorted(
            {name.namespace for name in self._project.declarations.tables} & {*databases}
        ):
            tables = self._listed("glue", "get_tables", "TableList", DatabaseName=namespace)
            by_name = {table["Name"]: table for table in tables}
            for name in self._stored():
                if name.namespace == namespace and name.table in by_name:
                    table = by_name[name.table]
                    parts = [
                        *table.get("StorageDescriptor", {}).get("Columns", ()),
                        *table.get("PartitionKeys", ()),
                    ]
                    found[name] = list(dict.fromkeys(column["Name"] for column in parts))
        return found

    def _location(self) -> Iterator[Step]:
        """Register the lakehouse's folder, unless it or one above it is."""
        place = urlsplit(self._project.lakehouse)
        partition = self._identity["Arn"].split(":")[1]
        arn = f"arn:{partition}:s3:::{place.netloc}{place.path.rstrip('/')}"
        known = [
            one["ResourceArn"] for one in self._listed("lakeformation", "list_resources", "ResourceInfoList")
        ]
        if not any(f"{arn}/".startswith(f"{one.rstrip('/')}/") for one in known):
            arguments = {"ResourceArn": arn, "UseServiceLinkedRole": True}
            yield Step(words=f"register {arn}", operation="register_resource", arguments=arguments)

    def _settings(self) -> Iterator[Step]:
        """Take everybody out of what new databases and tables give; all other settings stay."""
        answer = self._call("lakeformation", "get_data_lake_settings", "read the settings of the data lake")
        settings = dict(answer["DataLakeSettings"])
        kept = {
            key: [one for one in settings.get(key) or () if _principal(one) != EVERYBODY] for key in _DEFAULTS
        }
        if any(len(kept[key]) < len(settings.get(key) or ()) for key in _DEFAULTS):
            words = f"settings: new databases and tables give nothing to {EVERYBODY}"
            arguments = {"DataLakeSettings": settings | kept}
            yield Step(words=words, operation="put_data_lake_settings", arguments=arguments)

    def _rights_there(self) -> dict[Right, dict[str, Any]]:
        """The rights in Lake Formation that this project answers for, each with its resource as listed."""
        found: dict[Right, dict[str, Any]] = {}
        managed = {*self._project.grants.principals.values(), EVERYBODY}
        listed = self._listed("lakeformation", "list_permissions", "PrincipalResourcePermissions")
        for one in listed:
            if _principal(one) in managed and self._is_ours(one["Resource"]):
                for permission in one.get("Permissions") or ():
                    text = text_of(_columns_of_table(one["Resource"], permission))
                    found[Right(_principal(one), text, permission)] = one["Resource"]
                for permission in one.get("PermissionsWithGrantOption") or ():
                    right = Right(_principal(one), text_of(one["Resource"]), permission, passes_on=True)
                    found[right] = one["Resource"]
        return found

    def _is_ours(self, resource: Mapping[str, Any]) -> bool:
        """Whether a resource is of one of the project's databases, or of its tags."""
        spaces = {name.namespace for name in self._project.declarations.tables}
        (kind, named), *_ = resource.items()
        if kind == "LFTagPolicy":
            keys = [tag["TagKey"] for tag in named.get("Expression") or ()]
            return bool(keys) and all(key.startswith(TAG_PREFIX) for key in keys)
        return named.get("Name" if kind == "Database" else "DatabaseName") in spaces

    def _filters(self, wanted: WantedRights) -> Iterator[Step]:
        """Make, change and delete our data cells filters."""
        there = {
            text_of(filter_resource(one)): one
            for one in self._listed("lakeformation", "list_data_cells_filter", "DataCellsFilters")
            if one["Name"].startswith(FILTER_PREFIX) and self._is_ours(filter_resource(one))
        }
        filters = wanted.filters()
        for text, one in filters.items():
            words = f"filter {one['Name']} on {one['DatabaseName']}.{one['TableName']}"
            arguments = {"TableData": one}
            if text not in there:
                yield Step(words=f"make {words}", operation="create_data_cells_filter", arguments=arguments)
            elif _text_of_filter(there[text]) != _text_of_filter(one):
                yield Step(words=f"change {words}", operation="update_data_cells_filter", arguments=arguments)
        for text in there.keys() - filters.keys():
            one = there[text]
            words = f"delete filter {one['Name']} on {one['DatabaseName']}.{one['TableName']}"
            arguments = filter_resource(one)["DataCellsFilter"]
            yield Step(words=words, operation="delete_data_cells_filter", arguments=arguments)

    def _tags(self, wanted: WantedRights) -> Iterator[Step]:
        """Make the keys of our tags, and give them to columns or take them away."""
        listed = self._listed("lakeformation", "list_lf_tags", "LFTags")
        known = {one["TagKey"] for one in listed if one["TagKey"].startswith(TAG_PREFIX)}
        for key in sorted({f"{TAG_PREFIX}{tag}" for tag in wanted.granted_tags()} - known):
            arguments = {"TagKey": key, "TagValues": TAG_VALUES}
            yield Step(words=f"make tag {key}", operation="create_lf_tag", arguments=arguments)
        by_table = wanted.keys_of_columns()
        for name, columns in wanted.columns.items():
            own = by_table.get(name, {})
            there = self._keys_there(name, columns) if known else {}
            for column in columns:  # one call each: an answer about several says of which column a tag failed
                yield from _retagged(name, column, own.get(column, set()), there.get(column, set()))

    def _keys_there(self, name: TableName, columns: Sequence[str]) -> dict[str, set[str]]:
        """The keys of our tags that the columns of a table have in Lake Formation."""
        resource = some_columns(name, {"ColumnNames": list(columns)})
        answer = self._call(
            "lakeformation", "get_resource_lf_tags", f"read the tags of {name}", Resource=resource
        )
        return {
            one["Name"]: {tag["TagKey"] for tag in one["LFTags"] if tag["TagKey"].startswith(TAG_PREFIX)}
            for one in answer.get("LFTagsOnColumns") or ()
        }

    @cached_property
    def _identity(self) -> dict[str, str]:
        """Account and ARN of whoever calls."""
        return self._call("sts", "get_caller_identity", "ask who calls")

    def _listed(
        self, service: Service, operation: str, key: str, **arguments: str
    ) -> Iterator[dict[str, Any]]:
        """All that an operation lists, page by page."""
        page: dict[str, str] = {}
        while True:
            answer = self._call(service, operation, operation.replace("_", " "), **arguments, **page)
            yield from answer.get(key) or ()
            if not answer.get("NextToken"):
                return
            page = {"NextToken": answer["NextToken"]}

    def _call(self, service: Service, operation: str, what: str, **arguments: Any) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer: dict[str, Any] = getattr(self._client(service), operation)(**arguments)
        except ClientError as error:
            # The code alone: a message may quote the caller's identity.
            raise AwsRefusedError(what=f"leave to {what}", reason=code_of(error)) from error
        except BotoCoreError as error:
            raise AwsRefusedError(what=f"leave to {what}", reason=type(error).__name__) from error
        return answer

    def _client(self, service: Service) -> Any:
        if service not in self._clients:
            self._clients[service] = client(service)
        return self._clients[service]


def _principal(one: Mapping[str, Any]) -> str:
    return str(one["Principal"]["DataLakePrincipalIdentifier"])


def _columns_of_table(resource: Mapping[str, Any], permission: str) -> Mapping[str, Any]:
    """SELECT on a table is SELECT on all its columns, however it was granted."""
    table = resource.get("Table")
    if permission != "SELECT" or table is None or "TableWildcard" in table:
        return resource
    return {"TableWithColumns": dict(table) | {"ColumnWildcard": {}}}


def _changed(verb: Literal["grant", "revoke"], right: Right, resource: Mapping[str, Any]) -> Step:
    """The call that grants or revokes one right."""
    arguments: dict[str, Any] = {
        "Principal": {"DataLakePrincipalIdentifier": right.principal},
        "Resource": resource,
        "Permissions": [right.permission],
    }
    if right.passes_on:
        arguments["PermissionsWithGrantOption"] = [right.permission]
    passing = " with grant option" if right.passes_on else ""
    words = f"{verb} {right.permission}{passing} on {_in_words(resource)} {_TO[verb]} {right.principal}"
    return Step(words=words, operation=f"{verb}_permissions", arguments=arguments)


def _in_words(resource: Mapping[str, Any]) -> str:
    (kind, one), *_ = resource.items()
    if kind == "Database":
        return f"database {one['Name']}"
    if kind == "LFTagPolicy":
        return "columns tagged " + ", ".join(tag["TagKey"] for tag in one["Expression"])
    if kind == "DataCellsFilter":
        return f"{one['DatabaseName']}.{one['TableName']} by filter {one['Name']}"
    table = f"{one['DatabaseName']}.{one.get('Name', '*')}"
    if names := one.get("ColumnNames"):
        return f"{table} ({', '.join(names)})"
    if hidden := (one.get("ColumnWildcard") or {}).get("ExcludedColumnNames"):
        return f"{table} (all but {', '.join(hidden)})"
    return table


def _retagged(name: TableName, column: str, wanted: set[str], there: set[str]) -> Iterator[Step]:
    """The calls that give a column its tags, and take others of ours away."""
    resource = some_columns(name, {"ColumnNames": [column]})
    for operation, words, keys in (
        ("remove_lf_tags_from_resource", "untag", there - wanted),
        ("add_lf_tags_to_resource", "tag", wanted if wanted - there else set()),
    ):
        if keys:
            arguments = {"Resource": resource, "LFTags": [lf_tag(key) for key in sorted(keys)]}
            told = f"{words} {name}.{column}: {', '.join(sorted(keys))}"
            yield Step(words=told, operation=operation, arguments=arguments)


def _text_of_filter(one: Mapping[str, Any]) -> str:
    """What a data cells filter lets through, as text that is the same for equal ones."""
    columns = {key: one[key] for key in ("ColumnNames", "ColumnWildcard") if one.get(key)}
    rows = one.get("RowFilter", {}).get("FilterExpression")
    return f"{rows} {text_of({'columns': columns})}"
