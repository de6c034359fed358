import gc
import os

import numpy as np
import pytest

import nbgrad as ng
from kernels_cuda import _compat
from nbgrad.memory.cuda import cuda_pool


def test_devices():
    assert ng.cuda.is_available()
    assert ng.cuda.device_count() == 1
    assert ng.cuda.current_device() == 0
    ng.cuda.synchronize()
    x = ng.zeros(2, device="cuda:0")
    assert x.device == "cuda"
    assert x.to("cuda") is x
    assert x.cuda(0) is x
    with pytest.raises(ng.errors.DeviceError, match="cuda:3"):
        x.to("cuda:3")


def test_mixed_devices_name_both_and_the_remedy():
    a, b = ng.zeros(2, device="cuda"), ng.zeros(2)
    for fn in (lambda: a + b, lambda: b * a, lambda: ng.where(b > 0, a, a)):
        with pytest.raises(ng.errors.DeviceError, match=r"cuda:0 and cpu.*\.cpu\(\)"):
            fn()
    with pytest.raises(ng.errors.DeviceError, match="matmul"):
        ng.zeros(2, 2, device="cuda") @ ng.zeros(2, 2)


def test_numpy_needs_the_cpu():
    x = ng.zeros(2, device="cuda")
    for fn in (x.numpy, lambda: np.asarray(x), lambda: np.asarray(x._data)):
        with pytest.raises(ng.errors.DeviceError, match=r"\.cpu\(\)"):
            fn()
    assert x.sum().item() == 0.0
    assert not bool(x.sum())


def test_operators_without_a_cuda_kernel_say_so():
    x = ng.zeros(3, 3, device="cuda")
    with pytest.raises(ng.errors.UnsupportedError, match=r"no CUDA kernel.*\.cpu\(\)"):
        ng.linalg.inv(x)


def test_memory_statistics():
    gc.collect()
    before = ng.cuda.memory_allocated()
    x = ng.zeros(1000, device="cuda")
    view = x[10:20]
    assert ng.cuda.memory_allocated() == before + 8192
    del x
    assert ng.cuda.memory_allocated() == before + 8192  # the view keeps it
    del view
    assert ng.cuda.memory_allocated() == before
    assert ng.cuda.max_memory_allocated() >= before + 8192
    assert ng.cuda.memory_reserved() >= ng.cuda.memory_allocated()
    ng.cuda.reset_peak_memory_stats()
    assert "cuda:0" in ng.cuda.memory_summary()
    cuda_pool().check()
    ng.cuda.empty_cache()
    assert ng.cuda.memory_reserved() >= ng.cuda.memory_allocated()


def test_the_limit_is_an_error_that_says_what_to_do():
    ng.cuda.empty_cache()
    ng.cuda.set_limit(ng.cuda.memory_reserved() + 1024)
    try:
        with pytest.raises(ng.errors.OutOfMemoryError, match="cuda:0"):
            ng.zeros(1 << 20, device="cuda")
    finally:
        ng.cuda.set_limit(None)


def test_a_backward_pass_leaves_nothing_behind():
    x = ng.ones(16, device="cuda", requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        before = ng.cuda.memory_allocated()
        for _ in range(3):
            (ng.exp(x) * x).sum().backward()
            x.grad = None
        assert ng.cuda.memory_allocated() == before
    finally:
        gc.enable()


def test_streams_have_their_own_blocks():
    s = ng.cuda.Stream()
    with ng.cuda.stream(s):
        x = ng.ones(8, device="cuda")
        y = x + 1
    assert x._data.buffer.block.stream == s.key
    s.record_stream(y)
    s.synchronize()
    z = ng.ones(8, device="cuda")
    assert z._data.buffer.block.stream == 0
    np.testing.assert_array_equal((y + z).cpu().numpy(), np.full(8, 3.0))


def test_out_of_bounds_is_noticed_by_the_simulated_pointer():
    view = ng.zeros(4, device="cuda")._data.view()
    with pytest.raises(IndexError):
        _compat.pointer(view)[4]
    with pytest.raises(IndexError):
        _compat.pointer(view)[-1] = 0.0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told():
    x = ng.ones(3, device="cuda")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        found = []
        for fn in (lambda: x + 1, lambda: ng.zeros(2, device="cuda"), x.cpu, lambda: x.fill_(2.0)):
            try:
                fn()
                found.append("no error")
            except ng.errors.DeviceError as error:
                found.append("ok" if "fork" in str(error) else str(error))
            except BaseException as error:
                found.append(repr(error))
        os.write(write, "|".join(found).encode())
        os._exit(0)
    os.close(write)
    text = b""
    while chunk := os.read(read, 4096):
        text += chunk
    os.waitpid(pid, 0)
    assert text.decode() == "ok|ok|ok|ok"
    assert (x + 1).sum().item() == 6.0  # the parent goes on
