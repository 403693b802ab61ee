// SPDX-License-Identifier: BSD-3-Clause
//
// The expressions inside a block, a_1 x_1 + ... + b F with streams x and the sublayer's output F, in moments. At
// infinite width their covariances are those of any linear combination (token_combination.hpp). Here is what a finite
// width D adds: a token's squared norm varies from draw to draw, relatively by 2/D for a Gaussian one, and a norm that
// divides by it changes correlations between tokens by as much.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <normplace/analysis/fluctuation.hpp>
#include <normplace/analysis/stream_moments.hpp>
#include <normplace/analysis/sublayer_moments.hpp>
#include <normplace/analysis/token_combination.hpp>
#include <normplace/placement/formula.hpp>

namespace normplace {

/// Its sources are the streams, F, and what elementwise norms add (BlockExpressions::part_of_norm).
struct BlockExpression : TokenCombination {
    std::array<double, Formula::most_streams + 1> norm{};  ///< relative variances of the squared norms of x_1.. and F
    bool normalised = false;                               ///< a norm, perhaps times a factor: its size is given
    double widening = 0.0;                                 ///< what that norm adds to 1 - rho, relative
    double log_spread = 0.0;                               ///< and to the variance of its logarithm

    BlockExpression(TokenCombination factors) : TokenCombination(std::move(factors)) {}
    BlockExpression() = default;

    void add(double factor, const BlockExpression& other) {
        TokenCombination::add(factor, other);
        for (std::size_t p = 0; p < norm.size(); ++p) norm[p] = std::fmax(norm[p], other.norm[p]);
        normalised = false;
        widening = log_spread = 0.0;
    }
};

class BlockExpressions {
public:
    BlockExpressions(const TokenLayout& layout, double width) : layout_(layout), width_(width), sources_(layout) {}

    const TokenLayout& layout() const { return layout_; }
    double width() const { return width_; }

    /// @param norm_parts how many elementwise norms there are
    void enter(const StreamKernels& streams, const StreamFluctuations& fluctuations, std::size_t norm_parts) {
        sources_.together = streams;
        sources_.apart.assign(1 + norm_parts, {});
        fluctuations_ = fluctuations;
        means_.clear();
        for (std::size_t s = 0; s < streams.streams(); ++s)
            for (std::size_t t = 0; t < streams.streams(); ++t) means_.push_back(mean_within(layout_, streams(s, t)));
        input_ = {};
        branch_mean_ = {0.0, 0.0};
    }
    BlockExpression stream(std::size_t s) const {
        BlockExpression e = sources_.only(s);
        e.norm[s] = fluctuations_[s].norm;
        return e;
    }
    /// What the sublayer is told of its input beside the covariances.
    const Fluctuation& enter_sublayer(const BlockExpression& input) {
        const Parts parts = parts_of(input);
        input_ = parts.stream;
        input_.norm = norm_variance(input, parts);
        input_.log_spread += input.log_spread;
        return input_;
    }
    /// F, given its covariances; the norm of its input varies, and its own for a given input.
    BlockExpression branch(TokenKernel output, double norm_variance_for_input) {
        branch_mean_ = mean_within(layout_, output);
        sources_.apart[0] = std::move(output);
        BlockExpression e = sources_.only(branch_source());
        e.norm[branch_source()] = input_.norm + norm_variance_for_input;
        return e;
    }
    /// The part of an elementwise norm's value that does not covary with its argument, nor with anything before it.
    TokenCombination part_of_norm(std::size_t index, TokenKernel covariances) {
        sources_.apart[1 + index] = std::move(covariances);
        return sources_.only(branch_source() + 1 + index);
    }

    /// E F^2 per entry, averaged over tokens.
    double branch_square() const { return branch_mean_.same; }
    bool has_stream(const BlockExpression& e) const {
        for (std::size_t s = 0; s < branch_source(); ++s)
            if (mean_product(e[s], e[s]) != 0.0) return true;
        return false;
    }

    PerToken squares(const BlockExpression& e) const { return sources_.squares(e); }
    /// Covariances of two, without what norms do to 1 - rho.
    TokenKernel between(const BlockExpression& a, const BlockExpression& b) const { return sources_.between(a, b); }
    TokenKernel covariances(const BlockExpression& e) const {
        TokenKernel result = between(e, e);
        if (e.widening == 0.0) return result;
        // 1 - rho times 1 + widening rho (1 + rho)/2: for Gaussian vectors, where widening = 1/D, Fisher's mean of a
        // sample correlation.
        PerToken root = layout_.diagonal_of(result);
        for (double& q : root) q = std::sqrt(q);
        layout_.for_each_entry([&](std::size_t entry, std::size_t i, std::size_t j) {
            const double scale = root[i] * root[j], rho = scale > 0.0 ? std::fmin(result[entry] / scale, 1.0) : 0.0;
            result[entry] -= 0.5 * e.widening * scale * rho * (1.0 - rho * rho);
        });
        return result;
    }

    /// Relative variance of a token's squared norm.
    double norm_variance(const BlockExpression& e) const { return e.normalised ? 0.0 : norm_variance(e, parts_of(e)); }
    /// How the covariances of one pair of tokens fluctuate; `sublayer` made F.
    Fluctuation fluctuation(const BlockExpression& e, const SublayerMoments& sublayer) const {
        const Parts parts = parts_of(e);
        Fluctuation result;
        result.relative = combined_relative(parts.stream, parts.branch_spread,
                                            parts.branch_factor * sublayer.transfer() * input_.spread,
                                            sublayer.fresh(input_), width_);
        result.norm = norm_variance(e, parts);
        result.log_spread = parts.stream.log_spread + e.log_spread;
        return result;
    }
    /// e becomes e / |e|, as far as fluctuations go; its factors stay. What dividing by a fluctuating norm does to
    /// 1 - rho: the mean grows by the norm's relative variance, less the part of the differences that points along the
    /// token and is lost, 1/D; a stream that was normalised before has lost it already. Tokens that are not aligned
    /// fluctuate apart, hence the powers of rho (see `covariances`).
    void normalise(BlockExpression& e) const {
        const Parts parts = parts_of(e);
        const double square = parts.square + parts.branch_square, spread = parts.stream.spread + parts.branch_spread;
        if (square > 0.0 && spread > 0.0) {
            const double variance = norm_variance(e, parts), rho = 1.0 - spread / square;
            const double kept = parts.stream.norm > 0.0 ? 0.0 : parts.square / square * parts.stream.spread / spread;
            e.widening = variance - (1.0 - kept) / width_;
            e.log_spread = variance * rho * rho;
        }
        e.norm.fill(0.0);
        e.normalised = true;
    }

private:
    /// What streams and branch contribute to an expression. All streams share most of what they are made of, so their
    /// relative variances are averaged, weighted by what each contributes.
    struct Parts {
        double square = 0.0, branch_square = 0.0, branch_spread = 0.0, branch_factor = 0.0;
        Fluctuation stream;
    };

    std::size_t branch_source() const { return sources_.together.streams(); }
    static double mean_product(const PerToken& a, const PerToken& b) {
        if (a.size() == 0 || b.size() == 0) return 0.0;
        double sum = 0.0;
        for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
        return sum / static_cast<double>(a.size());
    }

    /// The means of a_i b_j K_ij, from those of K where the factors are the same for all tokens.
    WithinMean mean_of(const PerToken& a, const PerToken& b, const TokenKernel& kernel, const WithinMean& mean) const {
        if (a.size() == 0 || b.size() == 0) return {0.0, 0.0};
        if (is_uniform(a) && is_uniform(b)) return {a[0] * b[0] * mean.same, a[0] * b[0] * mean.different};
        TokenKernel weighted = kernel;
        layout_.for_each_entry(
            [&](std::size_t entry, std::size_t i, std::size_t j) { weighted[entry] *= a[i] * b[j]; });
        return mean_within(layout_, weighted);
    }
    static bool is_uniform(const PerToken& a) {
        for (const double x : a)
            if (x != a[0]) return false;
        return true;
    }

    Parts parts_of(const BlockExpression& e) const {
        Parts parts;
        const std::size_t streams = branch_source();
        Fluctuation& x = parts.stream;
        for (std::size_t s = 0; s < streams; ++s) {
            double share = 0.0;
            for (std::size_t t = 0; t < streams; ++t) {
                const WithinMean mean = mean_of(e[s], e[t], sources_.together(s, t), means_[s * streams + t]);
                share += mean.same;
                x.spread += mean.same - mean.different;
            }
            parts.square += share;
            if (streams == 1) share = 1.0;
            x.norm += share * e.norm[s];
            x.relative += share * fluctuations_[s].relative;
            x.log_spread += share * fluctuations_[s].log_spread;
        }
        if (streams > 1 && parts.square > 0.0)
            for (double* average : {&x.norm, &x.relative, &x.log_spread}) *average /= parts.square;
        const WithinMean branch = mean_of(e[streams], e[streams], sources_.apart[0], branch_mean_);
        const double branch_spread = branch_mean_.same - branch_mean_.different;
        parts.branch_square = branch.same;
        parts.branch_spread = branch.same - branch.different;
        parts.branch_factor = branch_spread > 0.0 ? parts.branch_spread / branch_spread : 0.0;
        return parts;
    }
    // The two parts' own, and the fluctuating product x.F.
    double norm_variance(const BlockExpression& e, const Parts& parts) const {
        if (e.normalised) return 0.0;
        const double x = parts.square, f = parts.branch_square, total = x + f;
        if (!(total > 0.0)) return 0.0;
        return (x * x * parts.stream.norm + f * f * e.norm[branch_source()] + 4.0 * x * f / width_) / (total * total);
    }

    const TokenLayout& layout_;
    double width_;
    TokenSources sources_;
    StreamFluctuations fluctuations_;
    std::vector<WithinMean> means_;  // of every pair of streams
    Fluctuation input_;              // of the sublayer
    WithinMean branch_mean_{0.0, 0.0};
};

}  // namespace normplace
