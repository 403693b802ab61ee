// SPDX-License-Identifier: BSD-3-Clause
//
// Dropout of a sublayer's output, before it is added to the stream and normalised (Vaswani et al. 2017,
// arXiv:1706.03762, section 5.4; Srivastava et al. 2014). Its randomness is the caller's: which entries are dropped is
// a function of a key that comes with each forward, so layers hold nothing for it, and the same parameters serve
// training and evaluation.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <normplace/detail/check.hpp>
#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/nn/sublayer.hpp>

namespace normplace {

/// Which entries are dropped. The default drops none, which is what evaluation wants.
struct DropoutKey {
    std::uint64_t seed = 0;
    double rate = 0.0;  ///< the probability that an entry is dropped, in [0, 1), to the nearest multiple of 2^-32

    /// An independent key of the same rate for one of the places that drop: `key.at(step).at(layer)`.
    DropoutKey at(std::uint64_t site) const { return {hash(hash(seed) ^ site), rate}; }

    /// @throws std::invalid_argument unless the rate is in [0, 1)
    void check() const {
        detail::require(rate >= 0.0 && rate < 1.0, "Dropout",
                        [&] { return "rate is " + detail::number_text(rate) + ", expected a number in [0, 1)"; });
    }

private:
    /// The next number of SplitMix64 (Steele, Lea and Flood 2014).
    static std::uint64_t hash(std::uint64_t z) {
        z += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
};

/// y = mask / (1 - rate) * x, where an entry of the mask is 0 with probability `rate`, else 1, and depends on nothing
/// but the key and the entry's index in row-major order. y may be x. Linear in x and its own adjoint: on the way back
/// it turns dLoss/dy into dLoss/dx.
/// @throws std::invalid_argument unless the rate is in [0, 1)
template <class T>
void dropout(const Activations<T>& x, Activations<T>& y, const DropoutKey& key) {
    key.check();
    if (key.rate == 0.0) return detail::copy(x, y);
    detail::reshape(y, detail::shape_of(x));
    constexpr double most = std::numeric_limits<std::uint32_t>::max();
    const double threshold = std::min(std::round(key.rate * 0x1p32), most);
    const T scale = static_cast<T>(1.0 / (1.0 - threshold * 0x1p-32));
    const T* from = x.data();
    T* to = y.data();
    const double work = 4.0 * static_cast<double>(x.size());
    detail::parallel_ranges(x.size(), work, [&](std::uint64_t begin, std::uint64_t end, std::size_t) {
        constexpr std::uint64_t last = std::numeric_limits<std::uint32_t>::max();  // a kernel counts to here
        for (std::uint64_t stop; begin < end; begin = stop) {
            stop = std::min(end, (begin | last) + 1);
            NORMPLACE_KERNEL(dropout, from + begin, to + begin, static_cast<std::size_t>(stop - begin),
                             static_cast<std::uint32_t>(begin), key.at(begin >> 32).seed,
                             static_cast<std::uint32_t>(threshold), scale);
        }
    });
}

/// The sublayer S with dropout on its output: y = mask / (1 - rate) * S(x), wherever S itself may stand. The key of a
/// forward is `cache.dropout`, which the caller sets; backward uses the one that the forward had. At rate 0 it is S,
/// bit for bit, at no cost.
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
    /// @throws std::invalid_argument unless the key's rate is in [0, 1), and as S does
    template <class... Context>
    void forward(const Activations<Scalar>& x, Activations<Scalar>& y, Cache& cache, const Context&... context) const {
        cache.dropout.check();
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
