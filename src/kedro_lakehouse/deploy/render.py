"""Write all files of a target into a folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from kedro_lakehouse.deploy.airflow import write_dag
from kedro_lakehouse.deploy.artifacts import build_wheel, needed_modules, own_jars, pack_conf, write_entry
from kedro_lakehouse.deploy.crawlers import crawler_resources
from kedro_lakehouse.deploy.deployment import Deployment, Jars
from kedro_lakehouse.deploy.emr_serverless import emr_serverless_template
from kedro_lakehouse.deploy.glue import glue_template
from kedro_lakehouse.deploy.platforms import line_of, require_formats
from kedro_lakehouse.deploy.workgroup import workgroup_resources
from kedro_lakehouse.session.line import DEFAULT, environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kedro.framework.startup import ProjectMetadata

    from kedro_lakehouse.project import Project

Target = Literal["emr-serverless", "glue", "airflow"]
TARGETS: Final = get_args(Target)
TEMPLATE: Final = "template.yml"
ARTIFACTS: Final = "artifacts"
_EXTRAS_OF_SOURCES: Final = frozenset({"kafka", "mongodb", "rest", "sap", "sql"})
"""Types of sources that need the extra of the same name."""


@dataclass
class Rendered:
    """The files that were written, and what to do with them, in order."""

    files: list[Path] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)


def render(  # noqa: PLR0913 - one an option of the command
    target: Target,
    project: Project,
    metadata: ProjectMetadata,
    conf: Path,
    folder: Path,
    *,
    jars: Jars = "platform",
    wheels: Sequence[Path] = (),
    every: float | None = None,
) -> Rendered:
    """Write a target's files; a folder that is there is written anew.

    Args:
        every: How often the job's loop looks for news, in seconds; None: it runs pipelines by its schedule.

    Raises:
        ConfigurationError: A place of the environment is not in S3.
        UnsupportedError: The wheel cannot be built, the jars are not here, or the platform's own are too old.
    """
    if target == "airflow":
        return _airflow(project, metadata, folder)
    kinds = {source.type for source in project.declarations.sources.values()}
    modules = tuple(needed_modules(*sorted(_EXTRAS_OF_SOURCES & kinds)))
    deployment = Deployment.of(
        project, package=metadata.package_name, jars=jars, modules=modules, every=every
    )
    if jars == "platform":
        require_formats(deployment.platform, deployment.formats)
    found = own_jars(project.spark_conf) if jars == "ours" else []
    shutil.rmtree(folder, ignore_errors=True)
    artifacts = folder / ARTIFACTS
    artifacts.mkdir(parents=True)
    shipped = [shutil.copy2(wheel, artifacts) for wheel in wheels] or [
        build_wheel(metadata.project_path, artifacts)
    ]
    deployment = replace(
        deployment,
        wheels=tuple(artifacts.joinpath(wheel).name for wheel in shipped),
        jar_files=tuple(file.name for file in found),
    )
    written = [*(artifacts / name for name in deployment.wheels)]
    written += [pack_conf(conf, artifacts), write_entry(artifacts), _requirements(deployment, artifacts)]
    make = glue_template if target == "glue" else emr_serverless_template
    content = make(deployment)
    content["Resources"] |= crawler_resources(deployment.discovered)
    content["Resources"] |= workgroup_resources(project.service.query)
    written.append(_template(content, folder))
    if target == "emr-serverless":
        source = files("kedro_lakehouse").joinpath("deploy", "templates", "environment.Dockerfile")
        written.append(folder / source.name)
        written[-1].write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return Rendered(written, _steps(target, deployment, found))


def _airflow(project: Project, metadata: ProjectMetadata, folder: Path) -> Rendered:
    folder.mkdir(parents=True, exist_ok=True)
    dag = write_dag(metadata, project.env, folder)
    variable, line = f"Set Airflow's variable {metadata.package_name}", line_of(project.spark_conf)
    steps = [
        f"Copy {dag.name} into Airflow's folder of DAGs. It is paused there: switch it on.",
        f"{variable}_project to the project's folder on the workers.",
    ]
    if line != DEFAULT:
        steps.append(f"{variable}_kedro to {environment(line)}/bin/kedro: {project.env} is for {line}.")
    return Rendered([dag], steps)


def _requirements(deployment: Deployment, folder: Path) -> Path:
    path = folder / "requirements.txt"
    path.write_text("".join(f"{module}\n" for module in deployment.modules), encoding="utf-8")
    return path


def _template(content: dict[str, Any], folder: Path) -> Path:
    import yaml

    class Plain(yaml.SafeDumper):
        """Writes what occurs twice twice: CloudFormation knows no anchors."""

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
            return True

    path = folder / TEMPLATE
    path.write_text(yaml.dump(content, Dumper=Plain, sort_keys=False, width=110), encoding="utf-8")
    return path


def _steps(target: Target, deployment: Deployment, jars: Sequence[Path]) -> list[str]:
    place = f"s3://{deployment.lakehouse.bucket}/{deployment.artifacts}"
    stack = f"aws cloudformation deploy --stack-name {deployment.name} --template-file {TEMPLATE}"
    pack = "docker build --file environment.Dockerfile --output . ."
    return [
        *([pack] if target == "emr-serverless" else []),
        f"{stack} --capabilities CAPABILITY_IAM",
        f"aws s3 sync {ARTIFACTS} {place}",
        *(f"aws s3 cp {jar} {place}/jars/" for jar in jars),
        f"{stack} --capabilities CAPABILITY_IAM --parameter-overrides ScheduleState=ENABLED",
    ]
