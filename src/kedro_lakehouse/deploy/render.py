"""Write all files of a target into a folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from kedro_lakehouse.deploy.airflow import write_dag
from kedro_lakehouse.deploy.artifacts import (
    CONF,
    EXTRAS_OF_JOBS,
    EXTRAS_OF_THE_SERVICE,
    build_wheel,
    needed_modules,
    own_jars,
    pack_conf,
    write_entry,
)
from kedro_lakehouse.deploy.crawlers import crawler_resources
from kedro_lakehouse.deploy.deployment import Deployment, Jars, pulls_of
from kedro_lakehouse.deploy.emr_serverless import emr_serverless_template
from kedro_lakehouse.deploy.glue import glue_template
from kedro_lakehouse.deploy.platforms import line_of, require_formats
from kedro_lakehouse.deploy.service import service_template
from kedro_lakehouse.deploy.workgroup import workgroup_resources
from kedro_lakehouse.session.line import DEFAULT, environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kedro.framework.startup import ProjectMetadata

    from kedro_lakehouse.project import Project

Target = Literal["emr-serverless", "glue", "airflow", "service"]
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
    if target == "service":
        return _service(project, metadata, conf, folder, wheels)
    kinds = {source.type for source in project.declarations.sources.values()}
    modules = tuple(needed_modules(*EXTRAS_OF_JOBS, *sorted(_EXTRAS_OF_SOURCES & kinds)))
    deployment = Deployment.of(
        project, package=metadata.package_name, jars=jars, modules=modules, every=every
    )
    if jars == "platform":
        require_formats(deployment.platform, deployment.formats)
    found = own_jars(project.spark_conf) if jars == "ours" else []
    written = _shipped(metadata, conf, folder, wheels)
    artifacts = folder / ARTIFACTS
    deployment = replace(
        deployment,
        wheels=tuple(file.name for file in written if file.suffix == ".whl"),
        jar_files=tuple(file.name for file in found),
    )
    written += [write_entry(artifacts), _requirements(deployment, artifacts)]
    make = glue_template if target == "glue" else emr_serverless_template
    content = make(deployment)
    content["Resources"] |= crawler_resources(deployment.discovered)
    content["Resources"] |= workgroup_resources(project.service.query)
    written.append(_template(content, folder))
    if target == "emr-serverless":
        written.append(_dockerfile("environment", folder))
    return Rendered(written, _steps(target, deployment, found))


def _shipped(metadata: ProjectMetadata, conf: Path, folder: Path, wheels: Sequence[Path]) -> list[Path]:
    """An empty folder with the wheels, the project's own where none are named, and the configuration."""
    shutil.rmtree(folder, ignore_errors=True)
    artifacts = folder / ARTIFACTS
    artifacts.mkdir(parents=True)
    shipped = [artifacts / shutil.copy2(wheel, artifacts) for wheel in wheels]
    return [*(shipped or [build_wheel(metadata.project_path, artifacts)]), pack_conf(conf, artifacts)]


def _dockerfile(name: str, folder: Path) -> Path:
    source = files("kedro_lakehouse").joinpath("deploy", "templates", f"{name}.Dockerfile")
    path = folder / source.name
    path.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def _service(
    project: Project, metadata: ProjectMetadata, conf: Path, folder: Path, wheels: Sequence[Path]
) -> Rendered:
    """The metadata service, which has a stack of its own: it may do less than the job."""
    modules = tuple(needed_modules(*EXTRAS_OF_THE_SERVICE))
    deployment = Deployment.of(project, package=metadata.package_name, modules=modules)
    deployment = replace(deployment, name=f"{deployment.name}-service")
    content = service_template(deployment, project)
    written = _shipped(metadata, conf, folder, wheels)
    written += [_requirements(deployment, folder / ARTIFACTS), _template(content, folder)]
    written.append(_dockerfile("service", folder))
    stack, fixed = _stack(deployment), "VpcId=VPC SubnetIds=SUBNET,SUBNET CertificateArn=ARN"
    asked = "--query 'repositories[0].repositoryUri' --output text"
    return Rendered(
        written,
        [
            f"{stack} --parameter-overrides {fixed}",
            f"aws s3 cp {ARTIFACTS}/{CONF} {_place(deployment)}/",
            f"IMAGE=$(aws ecr describe-repositories --repository-names {deployment.name} {asked})",
            'aws ecr get-login-password | docker login --username AWS --password-stdin "${IMAGE%%/*}"',
            'docker build --file service.Dockerfile --tag "$IMAGE:1" . && docker push "$IMAGE:1"',
            f"{stack} --parameter-overrides Tasks=1 ImageTag=1",
        ],
    )


def _airflow(project: Project, metadata: ProjectMetadata, folder: Path) -> Rendered:
    folder.mkdir(parents=True, exist_ok=True)
    dag = write_dag(metadata, project.env, folder, pulls_of(project))
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
    place, stack = _place(deployment), _stack(deployment)
    pack = "docker build --file environment.Dockerfile --output . ."
    return [
        *([pack] if target == "emr-serverless" else []),
        stack,
        f"aws s3 sync {ARTIFACTS} {place}",
        *(f"aws s3 cp {jar} {place}/jars/" for jar in jars),
        f"{stack} --parameter-overrides ScheduleState=ENABLED",
    ]


def _place(deployment: Deployment) -> str:
    return f"s3://{deployment.lakehouse.bucket}/{deployment.artifacts}"


def _stack(deployment: Deployment) -> str:
    named = f"--stack-name {deployment.name} --template-file {TEMPLATE}"
    return f"aws cloudformation deploy {named} --capabilities CAPABILITY_IAM"
