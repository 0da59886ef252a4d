// What `tch` does not reach, or only by several calls.

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <algorithm>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

using c10::autograd_dispatch_keyset_with_ADInplaceOrView;
using Without = c10::impl::ExcludeDispatchKeyGuard;

// Leaves LibTorch's differentiation out of this thread's calls until the guard, which is made at `place`, is removed.
static_assert(sizeof(Without) <= 2 * sizeof(uint64_t) && alignof(Without) <= alignof(uint64_t));
extern "C" void ubique_without_autograd(void *place) noexcept {
    new (place) Without(autograd_dispatch_keyset_with_ADInplaceOrView);
}
extern "C" void ubique_end_without_autograd(void *guard) noexcept { static_cast<Without *>(guard)->~Without(); }

// Puts differentiation back into this thread's calls, or leaves it out again.
extern "C" void ubique_set_autograd(bool on) noexcept {
    c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    keys.excluded_ = on ? keys.excluded_ - autograd_dispatch_keyset_with_ADInplaceOrView
                        : keys.excluded_ | autograd_dispatch_keyset_with_ADInplaceOrView;
    c10::impl::_force_tls_local_dispatch_key_set(keys);
}

static bool has_shape(const at::TensorBase *tensor, const size_t *shape, size_t rank) {
    const at::IntArrayRef sizes = tensor->sizes();
    const auto same = [](int64_t a, size_t b) { return static_cast<size_t>(a) == b; };
    return sizes.size() == rank && std::equal(sizes.begin(), sizes.end(), shape, same);
}

// Of a tensor that has been stored, and so has a shape.
extern "C" bool ubique_has_shape(const at::TensorBase *tensor, const size_t *shape, size_t rank) noexcept {
    return has_shape(tensor, shape, rank);
}

// The bytes of a tensor of a kind and shape that lies row-major, or -1 for another. Tensors of Vulkan lie as they like.
extern "C" int64_t ubique_row_major_bytes(const at::TensorBase *tensor, int kind, const size_t *shape, size_t rank) noexcept {
    try {
        const bool fits = has_shape(tensor, shape, rank) && static_cast<int>(tensor->scalar_type()) == kind;
        return fits && (tensor->is_contiguous() || tensor->is_vulkan()) ? static_cast<int64_t>(tensor->nbytes()) : -1;
    } catch (...) {
        return -1;
    }
}

namespace {
// LibTorch's host memory from functions of the other side.
struct Allocator final : c10::Allocator {
    void *(*take)(size_t);
    void (*give_back)(void *);
    bool (*give_back_own)(void *);
    c10::Allocator *before;

    c10::DataPtr allocate(size_t bytes) override {
        void *memory = bytes == 0 ? nullptr : take(bytes);
        TORCH_CHECK_WITH(OutOfMemoryError, memory != nullptr || bytes == 0, "not enough memory for ", bytes,
                         " bytes; the figures of the device's memory say what is in use, and what the limit is");
        return {memory, memory, give_back, c10::Device(c10::DeviceType::CPU)};
    }

    // For memory without an owner of its own, which may be older than this allocator.
    c10::DeleterFnPtr raw_deleter() const override;

    void copy_data(void *target, const void *source, size_t bytes) const override {
        default_copy_data(target, source, bytes);
    }
};

// Never freed: tensors may outlive everything.
Allocator *allocator = nullptr;

c10::DeleterFnPtr Allocator::raw_deleter() const {
    return [](void *memory) {
        if (memory != nullptr && !allocator->give_back_own(memory)) {
            allocator->before->raw_deallocate(memory);
        }
    };
}
}

extern "C" void ubique_use_allocator(void *(*take)(size_t), void (*give_back)(void *), bool (*give_back_own)(void *)) {
    allocator = new Allocator;
    allocator->take = take;
    allocator->give_back = give_back;
    allocator->give_back_own = give_back_own;
    allocator->before = c10::GetCPUAllocator();
    c10::SetCPUAllocator(allocator);
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
