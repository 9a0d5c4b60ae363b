from executorch.exir import to_edge_transform_and_lower
from quantized import exported

from pillion.executorch import PillionPartitioner

partitioner = PillionPartitioner("cortex-m55")
edge = to_edge_transform_and_lower(exported(), partitioner=[partitioner])
edge.to_executorch().save("after.pte")
print(len(partitioner.float_ops), "calls are left to ExecuTorch's kernels")
