# The Python environment of the job on EMR Serverless, packed where the release's own system libraries are:
#   docker build --file environment.Dockerfile --output . .
FROM amazonlinux:2023 AS packed
RUN dnf install -y python3.11 python3.11-pip tar gzip
COPY artifacts/*.whl artifacts/requirements.txt /build/
RUN python3.11 -m venv /environment \
 && /environment/bin/pip install --no-cache-dir /build/*.whl -r /build/requirements.txt venv-pack \
 && /environment/bin/venv-pack --output /environment.tar.gz

FROM scratch
COPY --from=packed /environment.tar.gz artifacts/environment.tar.gz
