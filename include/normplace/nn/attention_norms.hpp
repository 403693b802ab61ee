// SPDX-License-Identifier: BSD-3-Clause
//
// What stands between attention's projections and its heads, and between its heads and W_o, when SublayerNorms asks for
// it: norms of the queries, keys and values, head by head, a learned factor for each entry of queries and keys, one for
// each head's output, a norm of all heads' outputs. What is not asked for has no parameters, and costs nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <tuple>

#include <normplace/nn/gate.hpp>
#include <normplace/nn/norm.hpp>
#include <normplace/placement/sublayer_norms.hpp>

namespace normplace {

/// @tparam N the norm; its forward is called with y = x, and its backward with dx = dy
template <class T, class N = LayerNorm<T>>
class AttentionNorms {
public:
    using Scalar = T;
    static_assert(NormLayer<N>,
                  "normplace: a norm has Scalar, Gradients, Cache, a constructor from NormOptions, "
                  "forward(x, y, cache) and backward(dy, dx, cache, gradients).");
    static_assert(std::same_as<typename N::Scalar, T>,
                  "normplace: a norm inside a sublayer has the sublayer's Scalar: MultiHeadAttention<float, "
                  "RMSNorm<float>>.");

    struct Gradients {
        typename N::Gradients query_norm, key_norm, value_norm, heads_norm;
        Vector<T> query_key_scale;  // (D), or empty
        Vector<T> head_scale;       // (H), or empty
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("query_norm", self.query_norm), named("key_norm", self.key_norm),
                                   named("value_norm", self.value_norm), named("query_key_scale", self.query_key_scale),
                                   named("head_scale", self.head_scale), named("heads_norm", self.heads_norm));
        }
    };
    struct Cache {
        typename N::Cache query, key, value, heads;
        Activations<T> unscaled_query, unscaled_key;  // (B, S, D), (B, M, D), what query_key_scale multiplies; or empty
        Activations<T> mixed;  // (B, S, D), what W_o is given, or its gradient; empty where that is the heads' output
    };

    N query_norm, key_norm, value_norm;  ///< of K entries, or without parameters
    Vector<T> query_key_scale;           ///< (D), sqrt(K) at the start, or empty
    Vector<T> head_scale;                ///< (H), 1 at the start, or empty
    N heads_norm;                        ///< of D entries, or without parameters

    AttentionNorms() = default;
    /// @param options of a norm of all D entries
    /// @throws std::invalid_argument as N does
    AttentionNorms(const SublayerNorms& norms, std::size_t heads, const NormOptions& options)
        : norms_(norms), width_(options.width), heads_(heads) {
        NormOptions of_head = options;
        of_head.width /= heads;
        if (norms.query) query_norm = N(of_head);
        if (norms.key) key_norm = N(of_head);
        if (norms.value) value_norm = N(of_head);
        if (norms.heads) heads_norm = N(options);
        if (norms.query_key_scale) {
            query_key_scale.resize({width_});
            query_key_scale.fill(std::sqrt(static_cast<T>(head_width())));
        }
        if (norms.head_scale) {
            head_scale.resize({heads});
            head_scale.fill(T(1));
        }
    }

    /// Whether anything stands between the heads and W_o.
    bool after_heads() const { return norms_.heads || norms_.head_scale; }

    // Of queries, keys and values (B, S, D), in place.

    void forward_query(Activations<T>& query, Cache& cache) const {
        if (norms_.query) by_head(query, [&] { query_norm.forward(query, query, cache.query); });
        scale_entries(query, cache.unscaled_query);
    }
    void forward_key(Activations<T>& key, Cache& cache) const {
        if (norms_.key) by_head(key, [&] { key_norm.forward(key, key, cache.key); });
        scale_entries(key, cache.unscaled_key);
    }
    void forward_value(Activations<T>& value, Cache& cache) const {
        if (norms_.value) by_head(value, [&] { value_norm.forward(value, value, cache.value); });
    }
    /// Turns the gradients of the normalised queries, keys and values into those of what the projections gave.
    void backward(Activations<T>& dquery, Activations<T>& dkey, Activations<T>& dvalue, Cache& cache,
                  Gradients& gradients) const {
        if (norms_.query_key_scale) {
            const auto unscale = [&](const Activations<T>& unscaled, Activations<T>& d) {
                detail::gate_backward(query_key_scale, unscaled, d, T(1), d, gradients.query_key_scale);
            };
            unscale(cache.unscaled_query, dquery);
            unscale(cache.unscaled_key, dkey);
        }
        if (norms_.query)
            by_head(dquery, [&] { query_norm.backward(dquery, dquery, cache.query, gradients.query_norm); });
        if (norms_.key) by_head(dkey, [&] { key_norm.backward(dkey, dkey, cache.key, gradients.key_norm); });
        if (norms_.value)
            by_head(dvalue, [&] { value_norm.backward(dvalue, dvalue, cache.value, gradients.value_norm); });
    }

    // Of the heads' output (B, S, D). Nothing happens unless after_heads().

    /// cache.mixed = norm(head_scale o heads)
    void forward_heads(const Activations<T>& heads, Cache& cache) const {
        if (!after_heads()) return;
        if (!norms_.head_scale) return heads_norm.forward(heads, cache.mixed, cache.heads);
        detail::reshape(cache.mixed, detail::shape_of(heads));
        over_rows(heads, [&](std::size_t begin, std::size_t end, std::size_t) {
            std::copy(heads.data() + begin * width_, heads.data() + end * width_, cache.mixed.data() + begin * width_);
            scale(cache.mixed.data(), begin, end);
        });
        if (norms_.heads) heads_norm.forward(cache.mixed, cache.mixed, cache.heads);
    }
    /// Turns cache.mixed, its own gradient by now, into that of the heads' output.
    void backward_heads(const Activations<T>& heads, Cache& cache, Gradients& gradients) const {
        if (norms_.heads) heads_norm.backward(cache.mixed, cache.mixed, cache.heads, gradients.heads_norm);
        if (!norms_.head_scale) return;
        // Each thread sums over its own rows; the sums are then added in the order of the rows.
        const std::size_t threads = detail::threads_for(work(heads));
        detail::Scratch<T> sums((threads + 1) * heads_), dots(threads * heads_);
        std::fill_n(sums.data(), threads * heads_, T(0));
        over_rows(heads, [&](std::size_t begin, std::size_t end, std::size_t range) {
            T *sum = sums.data() + range * heads_, *dot = dots.data() + range * heads_;
            for (std::size_t row = begin * width_; row < end * width_; row += width_) {
                NORMPLACE_KERNEL(dot_rows, cache.mixed.data() + row, heads.data() + row, heads_, head_width(),
                                 head_width(), dot);
                for (std::size_t h = 0; h < heads_; ++h) sum[h] += dot[h];
            }
            scale(cache.mixed.data(), begin, end);
        });
        for (std::size_t i = 0; i < threads * heads_; ++i) gradients.head_scale[i % heads_] += sums.data()[i];
    }

    /// @throws std::invalid_argument, in the words of `who`, when the cache or the gradients are not this layer's
    void require_own(const char* who, const detail::Shape<3>& shape, const detail::Shape<3>& memory_shape,
                     const Cache& cache, const Gradients& gradients) const {
        if (after_heads()) detail::require_shape(who, "the cache's mixed", cache.mixed, shape);
        if (norms_.query_key_scale) {
            detail::require_shape(who, "the cache's unscaled_query", cache.unscaled_query, shape);
            detail::require_shape(who, "the cache's unscaled_key", cache.unscaled_key, memory_shape);
        }
        detail::require_shape(who, "gradients.query_key_scale", gradients.query_key_scale,
                              detail::shape_of(query_key_scale));
        detail::require_shape(who, "gradients.head_scale", gradients.head_scale, detail::shape_of(head_scale));
    }

private:
    std::size_t head_width() const { return width_ / heads_; }
    double work(const Activations<T>& x) const { return static_cast<double>(x.size()); }

    /// Calls body() while the rows of `tensor` (B, S, D) are those of (B, S H, K), which is the same memory.
    template <class Body>
    void by_head(Activations<T>& tensor, const Body& body) const {
        const detail::Shape<3> shape = detail::shape_of(tensor);
        detail::reshape(tensor, {shape[0], shape[1] * heads_, head_width()});
        body();
        detail::reshape(tensor, shape);
    }
    void scale_entries(Activations<T>& tensor, Activations<T>& unscaled) const {
        if (!norms_.query_key_scale) return;
        detail::copy(tensor, unscaled);
        detail::gate_forward(query_key_scale, unscaled, tensor);
    }
    template <class Body>
    void over_rows(const Activations<T>& x, const Body& body) const {
        detail::parallel_ranges(detail::row_count(x), work(x), body);
    }
    void scale(T* rows, std::size_t begin, std::size_t end) const {
        for (std::size_t r = begin; r < end; ++r)
            NORMPLACE_KERNEL(scale_rows, rows + r * width_, heads_, head_width(), head_width(), head_scale.data());
    }

    SublayerNorms norms_{};
    std::size_t width_ = 0, heads_ = 1;
};

}  // namespace normplace
