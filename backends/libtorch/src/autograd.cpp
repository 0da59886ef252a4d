// What `tch` does not reach: whether LibTorch's calls go through its differentiation in this thread.

#include <c10/core/impl/LocalDispatchKeySet.h>

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
