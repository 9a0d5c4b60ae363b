# SPDX-License-Identifier: Apache-2.0
"""The Arduino library, by version 1.5 of the library specification."""

from __future__ import annotations

from pillion.host_io.atomic_files import Content
from pillion.packages.contents import FLAGS, Contents, PackagedModel
from pillion.packages.example import inference

PRAGMA = f"""#ifdef ARDUINO /* which has no flags of libraries, compiles for size, and lets multiplications and additions fuse */
#pragma GCC optimize({", ".join(f'"{flag.removeprefix("-").removeprefix("f")}"' for flag in FLAGS)})
#endif
"""


def files(contents: Contents) -> dict[str, Content]:
    """Returns the files of the form. Arduino libraries have no flags; the sources contain them."""
    identity = contents.identity
    properties = {
        "name": identity.name,
        "version": identity.version,
        "author": identity.vendor,
        "maintainer": identity.vendor,
        "sentence": f"{', '.join(model.name for model in contents.models)}, compiled by Pillion.",
        "paragraph": "Neural networks as C for Cortex-M, without an interpreter.",
        "category": "Data Processing",
        "url": "https://github.com/",
        "architectures": "*",
        "includes": ",".join(f"{model.name}.h" for model in contents.models),
        "dot_a_linkage": "true",
    }
    return {
        "library.properties": "".join(f"{key}={value}\n" for key, value in properties.items()),
        "keywords.txt": "".join(f"pillion_model_{model.name}\tLITERAL1\n" for model in contents.models),
        **{f"examples/{model.name}/{model.name}.ino": _sketch(model) for model in contents.models},
        **{path: PRAGMA + contents.files[path] for path in contents.sources},
    }


def _sketch(model: PackagedModel) -> str:
    return f"""// Runs {model.name} on zeros, and prints a checksum of its outputs.
{inference(model)}
void setup() {{
    Serial.begin(115200);
}}

void loop() {{
    const unsigned long start = micros();
    const uint32_t outputs = infer();
    Serial.print("{model.name}: outputs ");
    Serial.print(outputs, HEX);
    Serial.print(", microseconds ");
    Serial.println(micros() - start);
    delay(1000);
}}
"""
