// SPDX-License-Identifier: BSD-3-Clause
//
// Dropout of a sublayer's output, before it is added to the stream and normalised (Vaswani et al. 2017,
// arXiv:1706.03762, section 5.4; Srivastava et al. 2014), and of what is inside a sublayer: attention's weights, and
// what the feed-forward's activation gives. Its randomness is the caller's: which entries are dropped is a function of
// a key that comes with each forward, so layers hold nothing for it, and the same parameters serve training and
// evaluation.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <normplace/detail/check.hpp>
#include <normplace/detail/dropout_mask.hpp>
#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/nn/sublayer.hpp>

namespace normplace {

/// Which entries are dropped. The default drops none, which is what evaluation wants. A rate is the probability that an
/// entry is dropped, in [0, 1), to the nearest multiple of 2^-32. PyTorch's TransformerEncoderLayer(dropout=p) has all
/// three at p.
struct DropoutKey {
    std::uint64_t seed = 0;
    double rate = 0.0;             ///< of embeddings and of sublayers' outputs
    double attention_rate = 0.0;   ///< of attention's weights, after the softmax
    double activation_rate = 0.0;  ///< between the feed-forward's activation and W_2

    /// An independent key of the same rates for one of the places that drop: `key.at(step).at(layer)`.
    DropoutKey at(std::uint64_t site) const {
        return {detail::seed_at(seed, site), rate, attention_rate, activation_rate};
    }

    /// The key of what a sublayer has inside: its `rate` is the one for that, the others are 0.
    DropoutKey of_attention() const { return {at(inside).seed, attention_rate}; }
    DropoutKey of_activation() const { return {at(inside).seed, activation_rate}; }

    /// @throws std::invalid_argument unless the rates are in [0, 1)
    void check() const {
        check("rate", rate);
        check("attention_rate", attention_rate);
        check("activation_rate", activation_rate);
    }
    /// Of the key of what a sublayer has inside.
    /// @throws std::invalid_argument unless its rate is in [0, 1) and the others are 0
    void check_inside() const {
        check();
        detail::require(attention_rate == 0.0 && activation_rate == 0.0, "Dropout", [&] {
            return "attention_rate is " + detail::number_text(attention_rate) + " and activation_rate is " +
                   detail::number_text(activation_rate) +
                   ", expected 0: inside a sublayer a key's rate is the one that counts";
        });
    }

private:
    static constexpr std::uint64_t inside = std::numeric_limits<std::uint64_t>::max();  // no site of a caller's

    static void check(const char* which, double value) {
        detail::require(value >= 0.0 && value < 1.0, "Dropout", [&] {
            return std::string(which) + " is " + detail::number_text(value) + ", expected a number in [0, 1)";
        });
    }
};

namespace detail {

inline DropoutMask mask_of(const DropoutKey& key) {
    constexpr double most = std::numeric_limits<std::uint32_t>::max();
    const double threshold = std::min(std::round(key.rate * 0x1p32), most);
    return {key.seed, static_cast<std::uint32_t>(threshold), 1.0 / (1.0 - threshold * 0x1p-32)};
}

/// y = mask / (1 - rate) * x for entries [begin, end) of a tensor, of which x and y hold these alone.
template <class T>
void dropout_range(const T* x, T* y, std::uint64_t begin, std::uint64_t end, const DropoutKey& key) {
    constexpr std::uint64_t last = std::numeric_limits<std::uint32_t>::max();  // a kernel counts to here
    const DropoutMask mask = mask_of(key);
    for (std::uint64_t stop; begin < end; begin = stop) {
        stop = std::min(end, (begin | last) + 1);
        const std::size_t count = static_cast<std::size_t>(stop - begin);
        NORMPLACE_KERNEL(dropout, x, y, count, static_cast<std::uint32_t>(begin), seed_at(mask.seed, begin >> 32),
                         mask.threshold, static_cast<T>(mask.scale));
        x += count, y += count;
    }
}

}  // namespace detail

/// y = mask / (1 - rate) * x, where an entry of the mask is 0 with probability `rate`, else 1, and depends on nothing
/// but the key and the entry's index in row-major order. y may be x. Linear in x and its own adjoint: on the way back
/// it turns dLoss/dy into dLoss/dx.
/// @throws std::invalid_argument unless the rate is in [0, 1)
template <class T>
void dropout(const Activations<T>& x, Activations<T>& y, const DropoutKey& key) {
    key.check();
    if (key.rate == 0.0) return detail::copy(x, y);
    detail::reshape(y, detail::shape_of(x));
    const T* from = x.data();
    T* to = y.data();
    const double work = 4.0 * static_cast<double>(x.size());
    detail::parallel_ranges(x.size(), work, [&](std::size_t begin, std::size_t end, std::size_t) {
        detail::dropout_range(from + begin, to + begin, begin, end, key);
    });
}

/// The sublayer S with dropout on its output: y = mask / (1 - rate) * S(x), wherever S itself may stand. The key of a
/// forward is `cache.dropout`, which the caller sets; backward uses the one that the forward had. What S itself drops
/// inside (its cache's `attention_dropout` or `activation_dropout`) gets its key from this one. At rates 0 it is S, bit
/// for bit, at no cost.
///
///     ResidualBlock<PreLN, Dropout<FeedForward<float>>> block({.width = 512, .feed_forward = 2048});
///
///     cache.sublayer.dropout = DropoutKey{.seed = 1, .rate = 0.1}.at(step);
///
///     block.forward(x, y, cache);
template <class S>
class Dropout : public S {
public:
    using typename S::Gradients;
    using typename S::Options;
    using typename S::Scalar;

    struct Cache : S::Cache {
        DropoutKey dropout;           ///< for the next forward
        DropoutKey used;              // by the last forward
        Activations<Scalar> dropped;  // (B, S, D), backward's dy with the same entries dropped
    };

    Dropout() = default;
    /// @throws std::invalid_argument when S refuses its options
    explicit Dropout(const Options& options) : S(options) {}

    /// x, y: (B, S, D). `context` goes to S.
    /// @throws std::invalid_argument unless the key's rates are in [0, 1), and as S does
    template <class... Context>
    void forward(const Activations<Scalar>& x, Activations<Scalar>& y, Cache& cache, const Context&... context) const {
        cache.dropout.check();
        if constexpr (requires { cache.attention_dropout; }) cache.attention_dropout = cache.dropout.of_attention();
        if constexpr (requires { cache.activation_dropout; }) cache.activation_dropout = cache.dropout.of_activation();
        S::forward(x, y, cache, context...);
        cache.used = cache.dropout;
        if (cache.used.rate > 0.0) dropout(y, y, cache.used);
    }

    /// dy, dx: (B, S, D). Adds to gradients, and uses the cache up. `context` goes to S.
    template <class... Context>
    void backward(const Activations<Scalar>& dy, Activations<Scalar>& dx, Cache& cache, Gradients& gradients,
                  Context&... context) const {
        if (cache.used.rate == 0.0) return S::backward(dy, dx, cache, gradients, context...);
        detail::require_distinct("Dropout", "dy", dy, "dx", dx);
        dropout(dy, cache.dropped, cache.used);
        S::backward(cache.dropped, dx, cache, gradients, context...);
    }
};

}  // namespace normplace
