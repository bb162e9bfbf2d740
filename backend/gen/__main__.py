"""`python -m backend.gen` writes the generated files of the contract; `make gen` runs it."""

from __future__ import annotations

import os

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.config.settings")
    django.setup()
    # needs the settings
    from backend.gen.files import generated_files

    for path, text in generated_files().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
