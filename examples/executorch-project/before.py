import torch
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.exir import EdgeCompileConfig, to_edge
from quantized import exported

config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.linear.default], _check_ir_validity=False)
edge = to_edge(exported(), compile_config=config)
core = CortexMTargetConfig(cpu=CortexM.M55)
passes = CortexMPassManager(edge.exported_program(), CortexMPassManager.pass_list, target_config=core)
edge._edge_programs["forward"] = passes.transform()
edge.to_executorch().save("before.pte")
