# SPDX-License-Identifier: Apache-2.0
"""The recipe with which ExecuTorch's `export` quantizes, lowers and writes a model for a target of Pillion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executorch.exir import EdgeCompileConfig
from executorch.export import (
    BackendRecipeProvider,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
    RecipeType,
    recipe_registry,
)

from pillion.errors import PillionError
from pillion.executorch.partitioner import PillionPartitioner
from pillion.executorch.quantizer import PillionQuantizer

BACKEND = "pillion"


class PillionRecipeType(RecipeType):
    """The recipes of Pillion: `ExportRecipe.get_recipe(PillionRecipeType.INT8, target="cortex-m55")`."""

    INT8 = "pillion_int8"
    """Post-training quantization with the samples that `export` is given; further arguments are PillionPartitioner's."""

    @classmethod
    def get_backend_name(cls) -> str:
        """Returns the name under which the recipes are registered."""
        return BACKEND


class PillionRecipeProvider(BackendRecipeProvider):
    """Makes the recipes; registered in ExecuTorch's registry when `pillion.executorch` is imported."""

    @property
    def backend_name(self) -> str:
        """The name under which the recipes are registered."""
        return BACKEND

    def get_supported_recipes(self) -> Sequence[RecipeType]:
        """Returns all recipes of Pillion."""
        return list(PillionRecipeType)

    def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
        """Returns the recipe for `target`, with options of PillionPartitioner; None for recipes of others."""
        if recipe_type not in self.get_supported_recipes():
            return None
        target = kwargs.pop("target", None)
        if target is None:
            raise PillionError(
                "the recipe has no target",
                rule="quantization and kernels depend on the core",
                here=f"ExportRecipe.get_recipe({recipe_type})",
                help=f'ExportRecipe.get_recipe({recipe_type}, target="cortex-m55")',
            )
        return ExportRecipe(
            name=recipe_type.value,
            quantization_recipe=QuantizationRecipe(quantizers=[PillionQuantizer(target)]),
            lowering_recipe=LoweringRecipe(
                partitioners=[PillionPartitioner(target, **kwargs)],
                edge_compile_config=EdgeCompileConfig(_check_ir_validity=False),
            ),
        )


recipe_registry.register_backend_recipe_provider(PillionRecipeProvider())
