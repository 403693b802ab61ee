// SPDX-License-Identifier: BSD-3-Clause
//
// Multi-head attention, self and cross, forward and backward. Per head h, with K = D/H:
//
//     y = W_o [softmax(Q_h K_h^T / sqrt(K)) V_h]_h + b_o,   Q = W_q x + b_q,   K = W_k m + b_k,   V = W_v m + b_v
//
// where m is x itself, or the memory in cross-attention. A query whose keys are all masked gets 0 from its heads, and a
// zero gradient. Vaswani et al. 2017, arXiv:1706.03762. Q, K, V and what W_o is given may each have a norm
// (placement/sublayer_norms.hpp). Dropout of the softmax's output, as torch.nn.MultiheadAttention(dropout=p) has it in
// training, is a matter of each forward (dropout.hpp):
//
//     cache.attention_dropout = DropoutKey{.seed = 1, .rate = 0.1}.at(step);
#pragma once

#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include <normplace/detail/attention_core.hpp>
#include <normplace/nn/attention_norms.hpp>
#include <normplace/nn/dropout.hpp>
#include <normplace/nn/linear.hpp>

namespace normplace {

/// (B, S): true where a key is padding and must not be attended, as in PyTorch. An empty mask masks nothing.
using KeyPaddingMask = xt::xtensor<bool, 2, xt::layout_type::row_major>;

struct AttentionOptions {
    std::size_t width = 0;                      ///< D
    std::size_t heads = 1;                      ///< H
    bool causal = false;                        ///< a token attends to itself and to what stands before it
    bool bias = true;                           ///< of the linear layers and of the norms
    bool output_projection = true;              ///< false: no W_o, as in Xiong et al. 2020's theory
    SublayerNorms norms{};                      ///< `hidden` is not attention's, and ignored
    double norm_epsilon = 1e-5;                 ///< of these norms
    NormKind norm_kind = NormKind::layer_norm;  ///< where they are AnyNorm
};

/// Decoding token by token: of each sequence, x is the one token at `position`, counted from 0. The cache keeps the
/// keys and values of those before it, and has room for `length`. Position 0 begins anew.
struct DecodingStep {
    std::size_t position = 0, length = 1;
};

/// What self- and cross-attention share: the four projections and the heads between them.
template <class T, class N = LayerNorm<T>>
class AttentionBase {
public:
    using Scalar = T;
    using Options = AttentionOptions;
    using Norms = AttentionNorms<T, N>;
    static constexpr bool input_in_cache = true;  // sublayer.hpp

    struct Gradients {
        typename Linear<T>::Gradients query, key, value, out;
        typename Norms::Gradients norms;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("query", self.query), named("key", self.key), named("value", self.value),
                                   named("out", self.out), named("", self.norms));
        }
    };
    struct Cache {
        Activations<T> x, memory;          // (B, S, D), (B, M, D); memory stays empty in self-attention
        Activations<T> query, key, value;  // (B, S, D), (B, M, D), (B, M, D)
        Activations<T> heads;              // (B, S, D), before W_o and what the norms put before it
        typename Norms::Cache norms;
        Matrix<T> log_total;           // (B H, S): the logarithm of each softmax's denominator
        Matrix<T> padding;             // (B, M), 0 or minus infinity; or empty
        DropoutKey attention_dropout;  ///< of the weights, for the next forward; a decoding step has none
        DropoutKey used_dropout;       // by the last forward
        bool filled = false;           // by a forward, and not used up by a backward
    };

    Linear<T> query, key, value;  ///< (D, D) each
    Linear<T> out;                ///< (D, D), or empty
    Norms norms;                  ///< `query_norm.gain` and so on, where the options ask for them

    AttentionBase() = default;
    /// @throws std::invalid_argument when the width is 0 or not divisible by the number of heads
    AttentionBase(const char* who, const Options& options) : name(who), options_(options) {
        detail::require_positive(name, "model width", options.width);
        detail::require_positive(name, "heads", options.heads);
        detail::require(options.width % options.heads == 0, name, [&] {
            return "model width " + std::to_string(options.width) + " is not divisible by " +
                   std::to_string(options.heads) + " heads";
        });
        const std::size_t d = options.width;
        query = Linear<T>(d, d, options.bias);
        key = Linear<T>(d, d, options.bias);
        value = Linear<T>(d, d, options.bias);
        if (options.output_projection) out = Linear<T>(d, d, options.bias);
        norms = Norms(options.norms, options.heads,
                      {.width = d, .epsilon = options.norm_epsilon, .bias = options.bias, .kind = options.norm_kind});
    }

    std::size_t width() const { return options_.width; }

    void initialize(const Initializer& initializer) {
        query.initialize(initializer, Role::query);
        key.initialize(initializer, Role::key);
        value.initialize(initializer, Role::value);
        if (options_.output_projection) out.initialize(initializer, Role::out);
    }

    /// Between two decoding steps: sequence i goes on from what was sequence `parents[i]`.
    /// @throws std::invalid_argument when there was none
    void select(Cache& cache, std::span<const std::size_t> parents) const {
        for (Activations<T>* kept : {&cache.key, &cache.value}) select_rows(*kept, parents);
        if (cache.padding.size()) select_rows(cache.padding, parents);
    }

protected:
    const char* name = "attention";  // for messages

    /// x (B, S, D), memory (B, M, D), y (B, S, D)
    void attend(const Activations<T>& x, const Activations<T>& memory, Activations<T>& y, Cache& cache,
                const KeyPaddingMask& mask) const {
        const detail::AttentionShape shape = shape_of(x, memory);
        cache.attention_dropout.check_inside();
        set_padding(mask, shape, cache);
        cache.used_dropout = cache.attention_dropout;
        cache.filled = true;
        detail::reshape(cache.query, detail::shape_of(x));
        detail::reshape(cache.key, detail::shape_of(memory));
        detail::reshape(cache.value, detail::shape_of(memory));
        detail::reshape(cache.heads, detail::shape_of(x));
        detail::reshape(cache.log_total, {shape.rows(), shape.queries});
        detail::reshape(y, detail::shape_of(x));
        const detail::SingleThreadedBlas single_threaded_blas;
        const auto project_queries = [&](std::size_t begin, std::size_t end) {
            query.forward_rows(x.data(), cache.query.data(), begin, end);
        };
        const auto project_memory = [&](std::size_t begin, std::size_t end) {
            key.forward_rows(memory.data(), cache.key.data(), begin, end);
            value.forward_rows(memory.data(), cache.value.data(), begin, end);
        };
        over_rows(x, memory, project_queries, project_memory);
        norms.forward_query(cache.query, cache.norms);
        norms.forward_key(cache.key, cache.norms);
        norms.forward_value(cache.value, cache.norms);
        detail::attention_forward(shape, cache.query.data(), cache.key.data(), cache.value.data(), padding(cache),
                                  cache.heads.data(), cache.log_total.data(), detail::mask_of(cache.used_dropout));
        norms.forward_heads(cache.heads, cache.norms);
        if (options_.output_projection)
            over_rows(x, 1, [&](std::size_t begin, std::size_t end) {
                out.forward_rows(mixed(cache).data(), y.data(), begin, end);
            });
        else detail::copy(mixed(cache), y);
    }

    /// One decoding step: x, y (B, 1, D). `memory` is read at position 0 only; without one, x's own key and value join
    /// those that the cache holds.
    void attend_next(const Activations<T>& x, Activations<T>& y, Cache& cache, const DecodingStep& step,
                     const Activations<T>* memory, const KeyPaddingMask& mask) const {
        const std::size_t batch = x.shape()[0], d = width();
        detail::require_shape(name, "x", x, {batch, 1, d});
        detail::require(step.position < step.length, name, [&] {
            return "position " + std::to_string(step.position) + " is not one of " + std::to_string(step.length);
        });
        if (step.position == 0) {
            detail::AttentionShape shape = shape_of(x, memory ? *memory : x);
            if (!memory) shape.keys = step.length;
            detail::reshape(cache.key, {batch, shape.keys, d});
            detail::reshape(cache.value, {batch, shape.keys, d});
            set_padding(mask, shape, cache);
            if (memory) {
                over_rows(*memory, 2, [&](std::size_t begin, std::size_t end) {
                    key.forward_rows(memory->data(), cache.key.data(), begin, end);
                    value.forward_rows(memory->data(), cache.value.data(), begin, end);
                });
                norms.forward_key(cache.key, cache.norms);
                norms.forward_value(cache.value, cache.norms);
            } else {  // what is not there yet is masked, and must be no NaN
                detail::reshape(cache.padding, {batch, shape.keys});
                cache.padding.fill(-std::numeric_limits<T>::infinity());
                cache.key.fill(T(0));
                cache.value.fill(T(0));
            }
        }
        const std::size_t keys = cache.key.shape()[1];
        detail::require_shape(name, "the cache's key", cache.key, {batch, memory ? keys : step.length, d});
        detail::reshape(cache.query, {batch, 1, d});
        detail::reshape(cache.heads, {batch, 1, d});
        detail::reshape(cache.log_total, {batch * options_.heads, 1});
        detail::reshape(y, {batch, 1, d});
        query.forward_rows(x.data(), cache.query.data(), 0, batch);
        norms.forward_query(cache.query, cache.norms);
        if (!memory) {
            Activations<T>& row = cache.heads;  // of no use before the heads have run
            const auto keep = [&](Activations<T>& kept) {
                for (std::size_t b = 0; b < batch; ++b)
                    std::copy_n(row.data() + b * d, d, kept.data() + (b * keys + step.position) * d);
            };
            key.forward_rows(x.data(), row.data(), 0, batch);
            norms.forward_key(row, cache.norms);
            keep(cache.key);
            value.forward_rows(x.data(), row.data(), 0, batch);
            norms.forward_value(row, cache.norms);
            keep(cache.value);
            for (std::size_t b = 0; b < batch; ++b) cache.padding(b, step.position) = T(0);
        }
        const detail::AttentionShape shape{batch, options_.heads, 1, keys, d / options_.heads, false};
        cache.filled = false;  // there is no backward of a decoding step
        detail::attention_forward(shape, cache.query.data(), cache.key.data(), cache.value.data(), padding(cache),
                                  cache.heads.data(), cache.log_total.data());
        norms.forward_heads(cache.heads, cache.norms);
        if (options_.output_projection) out.forward_rows(mixed(cache).data(), y.data(), 0, batch);
        else detail::copy(mixed(cache), y);
    }

    /// Adds to gradients; sets dx, and dmemory or (when it is null) adds the memory's part to dx.
    /// Uses the cache up: query, key and value become their gradients.
    void attend_backward(const Activations<T>& dy, Activations<T>& dx, Activations<T>* dmemory, Cache& cache,
                         Gradients& gradients) const {
        detail::require_filled(name, cache.filled);
        const Activations<T>& memory = dmemory ? cache.memory : cache.x;
        const detail::AttentionShape shape = shape_of(cache.x, memory);
        detail::require_width(name, "the cache's x", cache.x, width());
        detail::require_shape(name, "dy", dy, detail::shape_of(cache.x));
        detail::require_shape(name, "the cache's query", cache.query, detail::shape_of(cache.x));
        detail::require_shape(name, "the cache's key", cache.key, {shape.batch, shape.keys, width()});
        detail::require_shape(name, "the cache's log_total", cache.log_total, {shape.rows(), shape.queries});
        for (const auto& [linear, gradient] : {std::pair{&query, &gradients.query},
                                               {&key, &gradients.key},
                                               {&value, &gradients.value},
                                               {&out, &gradients.out}})
            linear->require_gradients(*gradient);
        norms.require_own(name, detail::shape_of(cache.x), detail::shape_of(memory), cache.norms, gradients.norms);
        cache.filled = false;
        detail::reshape(dx, detail::shape_of(cache.x));
        if (dmemory) detail::reshape(*dmemory, detail::shape_of(memory));
        T* dm = dmemory ? dmemory->data() : dx.data();

        const std::size_t rows = detail::row_count(cache.x), memory_rows = detail::row_count(memory), d = width();
        T *dquery = cache.query.data(), *dkey = cache.key.data(), *dvalue = cache.value.data();
        const bool projected = options_.output_projection, changed = norms.after_heads();
        detail::Scratch<T> scratch(projected && !changed ? rows * d : 0);
        T* dheads = changed ? cache.norms.mixed.data() : scratch.data();
        const detail::SingleThreadedBlas single_threaded_blas;
        if (projected) {
            out.add_gradients(mixed(cache).data(), dy.data(), rows, gradients.out);
            over_rows(cache.x, 1,
                      [&](std::size_t begin, std::size_t end) { out.backward_rows(dy.data(), dheads, begin, end); });
        } else if (changed) detail::copy(dy, cache.norms.mixed);
        norms.backward_heads(cache.heads, cache.norms, gradients.norms);
        detail::attention_backward(shape, cache.query.data(), cache.key.data(), cache.value.data(), padding(cache),
                                   cache.heads.data(), cache.log_total.data(),
                                   projected || changed ? dheads : dy.data(), dquery, dkey, dvalue,
                                   detail::mask_of(cache.used_dropout));
        norms.backward(cache.query, cache.key, cache.value, cache.norms, gradients.norms);
        query.add_gradients(cache.x.data(), dquery, rows, gradients.query);
        key.add_gradients(memory.data(), dkey, memory_rows, gradients.key);
        value.add_gradients(memory.data(), dvalue, memory_rows, gradients.value);
        const auto query_gradient = [&](std::size_t begin, std::size_t end) {
            query.backward_rows(dquery, dx.data(), begin, end);
        };
        const auto memory_gradient = [&](std::size_t begin, std::size_t end) {
            key.backward_rows(dkey, dm, begin, end, dmemory == nullptr);
            value.backward_rows(dvalue, dm, begin, end, true);
        };
        over_rows(cache.x, memory, query_gradient, memory_gradient);
    }

private:
    /// What W_o is given.
    const Activations<T>& mixed(const Cache& cache) const {
        return norms.after_heads() ? cache.norms.mixed : cache.heads;
    }
    detail::AttentionShape shape_of(const Activations<T>& x, const Activations<T>& memory) const {
        return {x.shape()[0],      options_.heads,           x.shape()[1],
                memory.shape()[1], width() / options_.heads, options_.causal};
    }
    /// body(begin, end) over the rows of x, each of which is worth `products` products.
    template <class Body>
    void over_rows(const Activations<T>& x, double products, const Body& body) const {
        const std::size_t rows = detail::row_count(x);
        detail::parallel_ranges(rows, products * query.work(rows),
                                [&](std::size_t begin, std::size_t end, std::size_t) { body(begin, end); });
    }
    /// One product on each row of x, then two on each row of the memory; row by row where these are the same.
    template <class OnX, class OnMemory>
    void over_rows(const Activations<T>& x, const Activations<T>& memory, const OnX& on_x,
                   const OnMemory& on_memory) const {
        if (&x != &memory) {
            over_rows(x, 1, on_x);
            over_rows(memory, 2, on_memory);
        } else {
            over_rows(x, 3, [&](std::size_t begin, std::size_t end) {
                on_x(begin, end);
                on_memory(begin, end);
            });
        }
    }
    /// kept[i] = kept[parents[i]], along the first axis.
    template <class Tensor>
    void select_rows(Tensor& kept, std::span<const std::size_t> parents) const {
        auto shape = detail::shape_of(kept);
        const std::size_t rows = shape[0], size = rows ? kept.size() / rows : 0;
        for (const std::size_t parent : parents)
            detail::require(parent < rows, name, [&] {
                return "sequence " + std::to_string(parent) + " is selected, but the cache holds " +
                       std::to_string(rows);
            });
        detail::Scratch<T> old(kept.size());
        std::copy_n(kept.data(), kept.size(), old.data());
        shape[0] = parents.size();
        detail::reshape(kept, shape);
        for (std::size_t i = 0; i < parents.size(); ++i)
            std::copy_n(old.data() + parents[i] * size, size, kept.data() + i * size);
    }
    void set_padding(const KeyPaddingMask& mask, const detail::AttentionShape& shape, Cache& cache) const {
        if (mask.size()) detail::require_shape(name, "key padding mask", mask, {shape.batch, shape.keys});
        detail::reshape(cache.padding, detail::shape_of(mask));
        for (std::size_t i = 0; i < mask.size(); ++i)
            cache.padding.data()[i] = mask.data()[i] ? -std::numeric_limits<T>::infinity() : T(0);
    }
    const T* padding(const Cache& cache) const { return cache.padding.size() ? cache.padding.data() : nullptr; }

    Options options_;
};

/// Self-attention: queries, keys and values all come from x. N is the norm inside it, where `options.norms` has one.
template <class T, class N = LayerNorm<T>>
class MultiHeadAttention : public AttentionBase<T, N> {
public:
    static constexpr SublayerKind kind = SublayerKind::attention;
    using typename AttentionBase<T, N>::Cache;
    using typename AttentionBase<T, N>::Gradients;
    using typename AttentionBase<T, N>::Options;

    MultiHeadAttention() = default;
    /// @throws std::invalid_argument when the width is 0 or not divisible by the number of heads
    explicit MultiHeadAttention(const Options& options) : AttentionBase<T, N>("MultiHeadAttention", options) {}

    /// x, y: (B, S, D)
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const KeyPaddingMask& mask = {}) const {
        detail::require_width(this->name, "x", x, this->width());
        detail::require_distinct(this->name, "x", x, "y", y);
        detail::copy(x, cache.x);
        detail::reshape(cache.memory, {0, 0, 0});
        this->attend(x, x, y, cache, mask);
    }

    /// x, y: (B, 1, D), the token at step.position; it attends to itself and to those before it.
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const DecodingStep& step) const {
        detail::require_distinct(this->name, "x", x, "y", y);
        this->attend_next(x, y, cache, step, nullptr, {});
    }

    /// dy, dx: (B, S, D). Adds to gradients.
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        detail::require_distinct(this->name, "dy", dy, "dx", dx);
        this->attend_backward(dy, dx, nullptr, cache, gradients);
    }
};

/// Cross-attention: queries come from x, keys and values from a memory of its own length. Never causal.
template <class T, class N = LayerNorm<T>>
class CrossAttention : public AttentionBase<T, N> {
public:
    static constexpr SublayerKind kind = SublayerKind::cross_attention;
    using typename AttentionBase<T, N>::Cache;
    using typename AttentionBase<T, N>::Gradients;
    using typename AttentionBase<T, N>::Options;

    CrossAttention() = default;
    /// @throws std::invalid_argument as MultiHeadAttention, and when `causal` is asked for
    explicit CrossAttention(const Options& options) : AttentionBase<T, N>("CrossAttention", options) {
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

    /// x, y: (B, 1, D); memory (B, M, D) and mask (B, M) are read at position 0 only.
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const Activations<T>& memory,
                 const KeyPaddingMask& mask, const DecodingStep& step) const {
        detail::require_distinct(this->name, "x", x, "y", y);
        this->attend_next(x, y, cache, step, &memory, mask);
    }

    /// Sets dx (B, S, D) and dmemory (B, M, D), adds to gradients.
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients,
                  Activations<T>& dmemory) const {
        detail::require_distinct(this->name, "dy", dy, "dx", dx);
        detail::require_distinct(this->name, "dx", dx, "dmemory", dmemory);
        detail::require_distinct(this->name, "dy", dy, "dmemory", dmemory);
        this->attend_backward(dy, dx, &dmemory, cache, gradients);
    }
};

}  // namespace normplace
