// SPDX-License-Identifier: BSD-3-Clause
//
// Multi-head attention, self and cross, forward and backward. Per head h, with K = D/H:
//
//     y = W_o [softmax(Q_h K_h^T / sqrt(K)) V_h]_h + b_o,   Q = W_q x + b_q,   K = W_k m + b_k,   V = W_v m + b_v
//
// where m is x itself, or the memory in cross-attention. A query whose keys are all masked gets 0 from its heads, and a
// zero gradient. Vaswani et al. 2017, arXiv:1706.03762.
#pragma once

#include <cmath>
#include <limits>
#include <tuple>

#include <normplace/detail/parallel.hpp>
#include <normplace/nn/linear.hpp>

namespace normplace {

/// (B, S): true where a key is padding and must not be attended, as in PyTorch. An empty mask masks nothing.
using KeyPaddingMask = xt::xtensor<bool, 2, xt::layout_type::row_major>;

struct AttentionOptions {
    std::size_t width = 0;  ///< D
    std::size_t heads = 1;  ///< H
    bool causal = false;    ///< a token attends to itself and to what stands before it
    bool bias = true;
    bool output_projection = true;  ///< false: no W_o, as in Xiong et al. 2020's theory
};

/// What self- and cross-attention share: the four projections and the heads between them.
template <class T>
class AttentionBase {
public:
    using Scalar = T;
    using Options = AttentionOptions;

    struct Gradients {
        typename Linear<T>::Gradients query, key, value, out;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("query", self.query), named("key", self.key), named("value", self.value),
                                   named("out", self.out));
        }
    };
    struct Cache {
        Activations<T> x, memory;          // (B, S, D), (B, M, D); memory stays empty in self-attention
        Activations<T> query, key, value;  // (B, S, D), (B, M, D), (B, M, D)
        Activations<T> weights;            // (B H, S, M), the softmax
        Activations<T> heads;              // (B, S, D), before W_o
        Activations<T> dquery, dkey, dvalue, dheads, dweights;  // scratch of backward
    };

    Linear<T> query, key, value;  ///< (D, D) each
    Linear<T> out;                ///< (D, D), or empty

    AttentionBase() = default;
    /// @throws std::invalid_argument when the width is 0 or not divisible by the number of heads
    AttentionBase(const char* who, const Options& options) : name(who), options_(options) {
        detail::require_positive(name, "model width", options.width);
        detail::require_positive(name, "heads", options.heads);
        detail::require(options.width % options.heads == 0, name,
                        "model width " + std::to_string(options.width) + " is not divisible by " +
                            std::to_string(options.heads) + " heads");
        const std::size_t d = options.width;
        query = Linear<T>(d, d, options.bias);
        key = Linear<T>(d, d, options.bias);
        value = Linear<T>(d, d, options.bias);
        if (options.output_projection) out = Linear<T>(d, d, options.bias);
    }

    std::size_t width() const { return options_.width; }

    void initialize(const Initializer& initializer) {
        query.initialize(initializer, Role::query);
        key.initialize(initializer, Role::key);
        value.initialize(initializer, Role::value);
        if (options_.output_projection) out.initialize(initializer, Role::out);
    }

protected:
    const char* name = "attention";  // for messages

    /// x (B, S, D), memory (B, M, D), y (B, S, D)
    void attend(const Activations<T>& x, const Activations<T>& memory, Activations<T>& y, Cache& cache,
                const KeyPaddingMask& mask) const {
        const std::size_t batch = x.shape()[0], length = x.shape()[1], keys = memory.shape()[1];
        if (mask.size()) detail::require_shape(name, "key padding mask", mask, {batch, keys});
        query.forward(x, cache.query);
        key.forward(memory, cache.key);
        value.forward(memory, cache.value);
        detail::reshape(cache.weights, {batch * options_.heads, length, keys});
        Activations<T>& heads = options_.output_projection ? cache.heads : y;
        detail::reshape(heads, detail::shape_of(x));
        detail::parallel_for(batch * options_.heads, threads_for(cache.weights), [&](std::size_t index, std::size_t) {
            const Head head(*this, index);
            T* weights = cache.weights.data() + index * length * keys;
            using detail::Transposed;
            detail::gemm(Transposed::no, Transposed::yes, length, keys, head.width, scale(),
                         head.rows(cache.query, length), width(), head.rows(cache.key, keys), width(), T(0), weights,
                         keys);
            const bool* padding = mask.size() ? mask.data() + head.sequence * keys : nullptr;
            for (std::size_t i = 0; i < length; ++i)
                softmax(weights + i * keys, options_.causal ? std::min(i + 1, keys) : keys, keys, padding);
            if (keys == 0) return head.clear(heads, length);
            detail::gemm(Transposed::no, Transposed::no, length, head.width, keys, T(1), weights, keys,
                         head.rows(cache.value, keys), width(), T(0), head.rows(heads, length), width());
        });
        if (options_.output_projection) out.forward(cache.heads, y);
    }

    /// Adds to gradients; sets dx, and dmemory or (when it is null) adds the memory's part to dx.
    void attend_backward(const Activations<T>& dy, Activations<T>& dx, Activations<T>* dmemory, Cache& cache,
                         Gradients& gradients) const {
        const Activations<T>& memory = dmemory ? cache.memory : cache.x;
        const std::size_t batch = cache.x.shape()[0], length = cache.x.shape()[1], keys = memory.shape()[1];
        detail::require_width(name, "the cache's x", cache.x, width());
        detail::require_shape(name, "dy", dy, detail::shape_of(cache.x));
        detail::require_shape(name, "the cache's query", cache.query, {batch, length, width()});
        detail::require_shape(name, "the cache's key", cache.key, {batch, keys, width()});
        detail::require_shape(name, "the cache's weights", cache.weights, {batch * options_.heads, length, keys});
        if (options_.output_projection) out.backward(cache.heads, dy, cache.dheads, gradients.out);
        const Activations<T>& dheads = options_.output_projection ? cache.dheads : dy;
        detail::reshape(cache.dquery, detail::shape_of(cache.query));
        detail::reshape(cache.dkey, detail::shape_of(cache.key));
        detail::reshape(cache.dvalue, detail::shape_of(cache.value));
        detail::reshape(cache.dweights, detail::shape_of(cache.weights));
        detail::parallel_for(batch * options_.heads, threads_for(cache.weights), [&](std::size_t index, std::size_t) {
            const Head head(*this, index);
            const T* weights = cache.weights.data() + index * length * keys;
            T* dweights = cache.dweights.data() + index * length * keys;
            using detail::Transposed;
            if (keys == 0) return head.clear(cache.dquery, length);
            detail::gemm(Transposed::yes, Transposed::no, keys, head.width, length, T(1), weights, keys,
                         head.rows(dheads, length), width(), T(0), head.rows(cache.dvalue, keys), width());
            detail::gemm(Transposed::no, Transposed::yes, length, keys, head.width, T(1), head.rows(dheads, length),
                         width(), head.rows(cache.value, keys), width(), T(0), dweights, keys);
            for (std::size_t i = 0; i < length; ++i) softmax_backward(weights + i * keys, dweights + i * keys, keys);
            detail::gemm(Transposed::no, Transposed::no, length, head.width, keys, scale(), dweights, keys,
                         head.rows(cache.key, keys), width(), T(0), head.rows(cache.dquery, length), width());
            detail::gemm(Transposed::yes, Transposed::no, keys, head.width, length, scale(), dweights, keys,
                         head.rows(cache.query, length), width(), T(0), head.rows(cache.dkey, keys), width());
        });
        query.backward(cache.x, cache.dquery, dx, gradients.query);
        Activations<T>& dm = dmemory ? *dmemory : dx;
        key.backward(memory, cache.dkey, dm, gradients.key, dmemory == nullptr);
        value.backward(memory, cache.dvalue, dm, gradients.value, true);
    }

private:
    /// One head of one sequence: K columns of the rows of that sequence.
    struct Head {
        std::size_t sequence, column, width, stride;

        Head(const AttentionBase& attention, std::size_t index)
            : sequence(index / attention.options_.heads),
              column(index % attention.options_.heads * (attention.width() / attention.options_.heads)),
              width(attention.width() / attention.options_.heads),
              stride(attention.width()) {}
        template <class Tensor>
        auto rows(Tensor& tensor, std::size_t count) const {
            return tensor.data() + sequence * count * stride + column;
        }
        void clear(Activations<T>& tensor, std::size_t count) const {
            for (std::size_t i = 0; i < count; ++i) std::fill_n(rows(tensor, count) + i * stride, width, T(0));
        }
    };

    T scale() const { return T(1) / std::sqrt(static_cast<T>(width() / options_.heads)); }

    /// Small work stays on one thread.
    static std::size_t threads_for(const Activations<T>& weights) {
        return weights.size() < 16384 ? 1 : detail::thread_count();
    }

    /// In place over the first `limit` entries that are not padding; the others become 0. All masked: all 0.
    static void softmax(T* row, std::size_t limit, std::size_t keys, const bool* padding) {
        T largest = -std::numeric_limits<T>::infinity();
        for (std::size_t j = 0; j < limit; ++j)
            if (!(padding && padding[j])) largest = std::max(largest, row[j]);
        T sum = 0;
        for (std::size_t j = 0; j < limit; ++j) {
            row[j] = padding && padding[j] ? T(0) : std::exp(row[j] - largest);
            sum += row[j];
        }
        const T factor = sum == T(0) ? T(0) : T(1) / sum;
        for (std::size_t j = 0; j < limit; ++j) row[j] *= factor;
        std::fill(row + limit, row + keys, T(0));
    }

    /// In place: d <- p o (d - sum(p o d))
    static void softmax_backward(const T* p, T* d, std::size_t keys) {
        T sum = 0;
        for (std::size_t j = 0; j < keys; ++j) sum += p[j] * d[j];
        for (std::size_t j = 0; j < keys; ++j) d[j] = p[j] * (d[j] - sum);
    }

    Options options_;
};

/// Self-attention: queries, keys and values all come from x.
template <class T>
class MultiHeadAttention : public AttentionBase<T> {
public:
    static constexpr SublayerKind kind = SublayerKind::attention;
    using typename AttentionBase<T>::Cache;
    using typename AttentionBase<T>::Gradients;
    using typename AttentionBase<T>::Options;

    MultiHeadAttention() = default;
    /// @throws std::invalid_argument when the width is 0 or not divisible by the number of heads
    explicit MultiHeadAttention(const Options& options) : AttentionBase<T>("MultiHeadAttention", options) {}

    /// x, y: (B, S, D)
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const KeyPaddingMask& mask = {}) const {
        detail::require_width(this->name, "x", x, this->width());
        detail::require_distinct(this->name, "x", x, "y", y);
        detail::copy(x, cache.x);
        detail::reshape(cache.memory, {0, 0, 0});
        this->attend(x, x, y, cache, mask);
    }

    /// dy, dx: (B, S, D). Adds to gradients.
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        detail::require_distinct(this->name, "dy", dy, "dx", dx);
        this->attend_backward(dy, dx, nullptr, cache, gradients);
    }
};

/// Cross-attention: queries come from x, keys and values from a memory of its own length. Never causal.
template <class T>
class CrossAttention : public AttentionBase<T> {
public:
    static constexpr SublayerKind kind = SublayerKind::cross_attention;
    using typename AttentionBase<T>::Cache;
    using typename AttentionBase<T>::Gradients;
    using typename AttentionBase<T>::Options;

    CrossAttention() = default;
    /// @throws std::invalid_argument as MultiHeadAttention, and when `causal` is asked for
    explicit CrossAttention(const Options& options) : AttentionBase<T>("CrossAttention", options) {
        detail::require(!options.causal, "CrossAttention",
                        "causal is true, but a memory has no order relative to the queries");
    }

    /// x, y: (B, S, D); memory (B, M, D); mask (B, M)
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const Activations<T>& memory,
                 const KeyPaddingMask& mask = {}) const {
        detail::require_width(this->name, "x", x, this->width());
        detail::require_shape(this->name, "memory", memory, {x.shape()[0], memory.shape()[1], this->width()});
        detail::require_distinct(this->name, "x", x, "y", y);
        detail::copy(x, cache.x);
        detail::copy(memory, cache.memory);
        this->attend(x, memory, y, cache, mask);
    }

    /// Sets dx (B, S, D) and dmemory (B, M, D), adds to gradients.
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients,
                  Activations<T>& dmemory) const {
        detail::require_distinct(this->name, "dy", dy, "dx", dx);
        detail::require_distinct(this->name, "dx", dx, "dmemory", dmemory);
        this->attend_backward(dy, dx, &dmemory, cache, gradients);
    }
};

}  // namespace normplace
