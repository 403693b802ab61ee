// SPDX-License-Identifier: BSD-3-Clause
//
// How far a predicted gradient norm can be trusted, and which limit of the theory it is near. Where a limit is passed
// so far that the number would be wrong by more than about 15 %, there is none.
//
// The bounds were found by measurement: Pre-, Post-, Peri-LN, ResPostNorm, DeepNorm and no norm at all, D 16 to 256, L
// 1 to 48, n 8 to 512 tokens in a sequence, causal or not. Each is tested from both sides in
// tests/measure/validity.cpp.
#pragma once

#include <cmath>
#include <cstddef>

namespace normplace {

/// Of a measured number, and of one that the model does not have (NaN): `holds`.
enum class Validity {
    holds,
    less_certain,  ///< there is a number, with an error of 5 to 30 %
    fails          ///< the number is NaN
};

/// A limit of the theory.
enum class Limit {
    none,
    large_scores,        ///< attention settles on single tokens
    below_large_scores,  ///< the gradient has come through attention that does
    no_norm_at_end,      ///< the loss's gradient leans on a hidden state that no norm keeps small
    narrow,              ///< D below 64
    many_tokens,         ///< more tokens in a sequence than dimensions: a norm's gain before attention
    aligned_tokens,      ///< 1 - rho below 32/D: W_q and W_k
    overflow,            ///< beyond double precision
    no_theory            ///< a parameter of which the theory does not speak
};

constexpr const char* name(Validity validity) {
    switch (validity) {
        case Validity::less_certain: return "less_certain";
        case Validity::fails: return "fails";
        default: return "holds";
    }
}

/// One sentence, without its full stop.
constexpr const char* explain(Limit limit) {
    switch (limit) {
        case Limit::none: break;
        case Limit::large_scores:
            return "the scores' variance is above 2 ln n, where attention settles on single tokens";
        case Limit::below_large_scores: return "the gradient has come through attention that settles on single tokens";
        case Limit::no_norm_at_end:
            return "no norm stands before the readout, and the hidden state is so large that the loss's gradient leans "
                   "on it";
        case Limit::narrow: return "the width is below 64, where corrections of order 1/D are large";
        case Limit::many_tokens:
            return "a sequence has so many tokens that the gain of a norm before attention feels how pairs of them "
                   "fluctuate, n/D, which is neglected there";
        case Limit::aligned_tokens:
            return "tokens are so alike, 1 - rho below 32/D, that W_q and W_k feel what is neglected of rho";
        case Limit::overflow: return "a second moment left the range of double precision";
        case Limit::no_theory: return "the theory does not speak of this parameter";
    }
    return "no limit of the theory is near";
}

namespace detail {

struct Judgement {
    Validity validity = Validity::holds;
    Limit limit = Limit::none;

    /// The worse of the two; of equals, the first.
    void worsen(const Judgement& other) {
        if (other.validity > validity) *this = other;
    }
};

/// A value below 0 is no longer one, and fails as NaN does.
inline Judgement judge(double value, double less_certain_above, double fails_above, Limit limit) {
    if (!(value >= 0.0 && value <= fails_above)) return {Validity::fails, limit};
    if (value > less_certain_above) return {Validity::less_certain, limit};
    return {};
}
/// Measured: at width 32 up to 18 % off, W_q and W_k 30 %.
constexpr bool is_narrow(std::size_t width) { return width < 64; }
/// W_q and W_k, of tokens whose correlation is rho on average. Measured, from width 128: 5 to 30 % too low below 32/D.
inline Judgement judge_alignment(double one_minus_rho, double width) {
    return one_minus_rho * width < 32.0 ? Judgement{Validity::less_certain, Limit::aligned_tokens} : Judgement{};
}
/// The gain of a norm whose value self-attention reads, over `keys` tokens. Measured: at keys (1 - rho)^2 = D 12 % too
/// low, at 2 D 30 %.
inline Judgement judge_gain(double keys, double one_minus_rho, double width) {
    return judge(keys * one_minus_rho * one_minus_rho / width, 0.5, 1.25, Limit::many_tokens);
}

/// What gradients have come through on their way from the loss, as far as it limits those below.
class GradientPath {
public:
    /// Attention whose scores have `excess` times the variance 2 ln n. Errors add up: each such layer takes about
    /// ln(excess) percent, under a causal mask somewhat more, since its first positions have few keys. Of that a norm
    /// of the sum x + f(x) makes up to ten times as much, since the stream's 1 - rho is then a product over layers.
    void pass_attention(double excess, bool norm_of_sum, bool causal) {
        if (!(excess > 1.0)) return;
        sum_of_logs_ += std::log(excess);
        const double bound = norm_of_sum ? (causal ? 1.5 : 5.0) : (causal ? 15.0 : 16.0);
        judgement_.worsen(judge(sum_of_logs_, 0.0, bound, Limit::below_large_scores));
    }
    /// The loss, where no norm stands before the readout. The readout u_v of the class that the model favours
    /// correlates with the hidden state h itself, and so does the gradient, by `lean` h: a norm's Jacobian takes that
    /// away, and nothing adds it where there is none. `share` is what it would add to a squared gradient norm.
    /// Measured: 3 % too low at 0.015, 15 at 0.06, 60 at 0.9; the readout's own gradient, which needs h alone, 2 at
    /// 0.06 and 18 at 0.9. Nor does a norm correct the size of h where attention gets it wrong: by 5 % at an `excess`
    /// of 2 to 3 times 2 ln n for the scores' variance, by 25 % at 8.
    /// @return that of the readout
    Judgement pass_loss(double share, double excess) {
        Judgement hidden = judge(excess, 1.0, 4.0, Limit::no_norm_at_end);
        judgement_.worsen(judge(share, 0.01, 0.05, Limit::no_norm_at_end));
        judgement_.worsen(hidden);
        hidden.worsen(judge(share, 0.05, 0.5, Limit::no_norm_at_end));
        return hidden;
    }
    const Judgement& judgement() const { return judgement_; }

private:
    Judgement judgement_;
    double sum_of_logs_ = 0.0;
};

}  // namespace detail
}  // namespace normplace
