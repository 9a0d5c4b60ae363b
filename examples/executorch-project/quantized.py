import torch
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from net import Net, samples
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


def exported():
    """The network as ExecuTorch's flow for Cortex-M quantizes it."""
    torch.manual_seed(0)
    net = Net().eval().to(memory_format=torch.channels_last)
    x = (samples(1)[0],)
    prepared = prepare_pt2e(torch.export.export(net, x).module(check_guards=False), CortexMQuantizer())
    for sample in samples(16):
        prepared(sample)
    return torch.export.export(convert_pt2e(prepared), x)
