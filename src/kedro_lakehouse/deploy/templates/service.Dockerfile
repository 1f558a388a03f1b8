# The metadata service; its configuration is read from S3 when it starts:
#   docker build --file service.Dockerfile --tag IMAGE .
FROM python:3.12-slim
COPY artifacts/*.whl artifacts/requirements.txt /build/
RUN pip install --no-cache-dir /build/*.whl -r /build/requirements.txt && useradd --system --uid 10001 service
USER 10001
ENV PYTHONUNBUFFERED=1
ENTRYPOINT ["python", "-m", "kedro_lakehouse.service.container"]
