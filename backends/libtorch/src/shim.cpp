// What `tch` does not reach, or only by several calls.

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

// Whether LibTorch's calls go through its differentiation in this thread. Gives what it was before.
extern "C" bool ubique_set_autograd(bool on) noexcept {
    using c10::autograd_dispatch_keyset_with_ADInplaceOrView;
    c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    const bool before = !keys.excluded_.has_all(autograd_dispatch_keyset_with_ADInplaceOrView);
    if (on) {
        keys.excluded_ = keys.excluded_ - autograd_dispatch_keyset_with_ADInplaceOrView;
    } else {
        keys.excluded_ = keys.excluded_ | autograd_dispatch_keyset_with_ADInplaceOrView;
    }
    c10::impl::_force_tls_local_dispatch_key_set(keys);
    return before;
}

// The bytes of a tensor of a kind that lies row-major, or -1 for another, and for one that has no layout.
extern "C" int64_t ubique_row_major_bytes(const at::TensorBase *tensor, int kind) noexcept {
    try {
        const bool fits = static_cast<int>(tensor->scalar_type()) == kind && tensor->is_contiguous();
        return fits ? static_cast<int64_t>(tensor->nbytes()) : -1;
    } catch (...) {
        return -1;
    }
}

// A row-major tensor on the CPU over memory that `release` is called for when no tensor looks at it any more. Null where
// LibTorch refuses.
extern "C" at::Tensor *ubique_wrap(void *data, const int64_t *sizes, size_t rank, int kind, void *context,
                                   void (*release)(void *)) noexcept {
    try {
        const auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(kind));
        const auto drop = [context, release](void *) { release(context); };
        return new at::Tensor(at::from_blob(data, at::IntArrayRef(sizes, rank), drop, options));
    } catch (...) {
        return nullptr;
    }
}
