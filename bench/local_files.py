"""What a local file costs that Java makes through Hadoop: by its own file system, and by the bare one.

``.venv/bin/python bench/local_files.py [FILES]``
"""

from __future__ import annotations

import sys
import tempfile
from time import perf_counter

from kedro_lakehouse.project import found_project

WAYS = {
    "Hadoop's own": "org.apache.hadoop.fs.LocalFileSystem",
    "bare": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
}


def main(files: int) -> None:
    """Make as many files in each way, three times in turns; print the best time of a file."""
    spark = found_project().session
    jvm, conf = spark._jvm, spark._jsc.hadoopConfiguration()
    hadoop = jvm.org.apache.hadoop.fs
    best = dict.fromkeys(WAYS, float("inf"))
    for way, name in [*WAYS.items()] * 3:
        conf.set("fs.file.impl", name)
        with tempfile.TemporaryDirectory() as folder:
            system = hadoop.FileSystem.newInstance(hadoop.Path(f"file://{folder}").toUri(), conf)
            begun = perf_counter()
            for number in range(files):
                system.create(hadoop.Path(f"{folder}/{number}")).close()
            best[way] = min(best[way], (perf_counter() - begun) / files)
    for way, seconds in best.items():
        print(f"{way}: {seconds * 1000:.1f} ms a file")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
