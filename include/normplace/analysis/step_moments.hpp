// SPDX-License-Identifier: BSD-3-Clause
//
// Walks a placement's formula after one optimizer step, in moments: from the new tokens' stream at the block's input to
// that at its output. One of the interpreters of the grammar (placement/formula.hpp).
//
// As in moments.hpp every expression is, token by token, p x + b F. Before the step (old tokens i) and after it (new
// tokens j) the coefficients differ, because norms divide by other second moments. The gradient at x is p_i times the
// root's, and that at F is b_i times the root's, so that in units of the root's gradient
//
//     C = p_i p'_j C_x + b_i b'_j C_F,   a = p_i p'_j a_x + b_i b'_j a_F,
//     K' = p'_j p'_j' K'_x + b'_j b'_j' K'_F + p'_j b'_j' X_jj' + b'_j p'_j' X_j'j,   X = a_x^T (p G b) a_F.
//
// x and F are independent before the step; X is what they share after it, both pulled along the same gradients.
#pragma once

#include <array>
#include <cmath>
#include <utility>

#include <normplace/analysis/step_sublayer.hpp>
#include <normplace/placement/formula.hpp>

namespace normplace {

/// What a block's step needs of the network before it, apart from the sublayer's.
struct BlockBefore {
    PerToken stream, branch;  ///< second moments of x and of F
    FoldedKernel gradient;    ///< at the block's output
};

/// The steps of a norm's gain and bias.
struct NormStep {
    StepDecomposition gain, bias;
};

template <class P>
class BlockStep {
    static constexpr auto slot_names = syntax::slots(P::formula);

public:
    BlockStep(double epsilon, const Depth& depth, const BlockBefore& before, SublayerStep& sublayer)
        : epsilon_(epsilon), depth_(depth), before_(before), sublayer_(sublayer), root_(coefficients(P::formula)) {}

    SteppedActivations step(const detail::StepContext& context, const SteppedActivations& stream) {
        context_ = &context;
        stream_ = &stream;
        branch_ = {};
        const Expression root = walk(P::formula);
        SteppedActivations result = combine(root);
        const Crossing& crossing = context.crossing;
        if (root.own.size() > 0) {  // with o added, a^T G a grows by the symmetric part of o^T G (2 a + o)
            CrossedKernel twice = result.amplitude;
            for (std::size_t e = 0; e < twice.size(); ++e) {
                result.amplitude[e] += root.own[e];
                twice[e] += result.amplitude[e];
            }
            const TokenKernel added = crossing.between(root.own, before_.gradient, twice);
            const TokenKernel transposed = crossing.transposed(added);
            for (std::size_t e = 0; e < added.size(); ++e) {
                const double growth = 0.5 * (added[e] + transposed[e]);
                result.covariance[e] += growth;
                result.change[e] += growth;
            }
        }
        return result;
    }

    /// In the order of the formula's slots.
    std::array<NormStep, slot_names.size()> norms{};

private:
    using Pair = std::pair<PerToken, PerToken>;
    struct Expression {
        PerToken stream, branch;          // old tokens, before the step
        PerToken new_stream, new_branch;  // new tokens, after it
        CrossedKernel own;                // amplitude that the steps of norms' gains and biases add; empty: none
    };

    const Crossing& crossing() const { return context_->crossing; }

    SteppedActivations combine(const Expression& c) const {
        const bool has_branch = branch_.covariance.size() > 0;
        SteppedActivations r{TokenKernel(crossing().after().entries()), crossing().zero(), crossing().zero(),
                             TokenKernel(crossing().after().entries())};
        crossing().for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const double x = c.stream[i] * c.new_stream[j];
            r.crossed[e] = x * stream_->crossed[e];
            r.amplitude[e] = x * stream_->amplitude[e];
            if (!has_branch) return;
            const double f = c.branch[i] * c.new_branch[j];
            r.crossed[e] += f * branch_.crossed[e];
            r.amplitude[e] += f * branch_.amplitude[e];
        });
        crossing().after().for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const double x = c.new_stream[i] * c.new_stream[j];
            r.covariance[e] = x * stream_->covariance[e];
            r.change[e] = x * stream_->change[e];
            if (!has_branch) return;
            const double f = c.new_branch[i] * c.new_branch[j];
            const double shared = c.new_stream[i] * c.new_branch[j] * shared_[e] +
                                  c.new_branch[i] * c.new_stream[j] * shared_transposed_[e];
            r.covariance[e] += f * branch_.covariance[e] + shared;
            r.change[e] += f * branch_.change[e] + shared;
        });
        return r;
    }

    Expression walk(syntax::Stream) {
        return {PerToken(crossing().rows(), 1.0),
                PerToken(crossing().rows(), 0.0),
                PerToken(crossing().columns(), 1.0),
                PerToken(crossing().columns(), 0.0),
                {}};
    }
    template <class Input>
    Expression walk(const syntax::Sublayer<Input>& e) {
        const Expression c = walk(e.input);
        SteppedActivations input = combine(c);
        for (std::size_t k = 0; k < c.own.size(); ++k) input.amplitude[k] += c.own[k];
        branch_ = sublayer_.step(*context_, std::move(input));
        share();
        return {PerToken(crossing().rows(), 0.0),
                PerToken(crossing().rows(), 1.0),
                PerToken(crossing().columns(), 0.0),
                PerToken(crossing().columns(), 1.0),
                {}};
    }
    template <Label slot, class Input>
    Expression walk(const syntax::Norm<slot, Input>& e) {
        Expression c = walk(e.input);
        constexpr std::size_t index = syntax::slot_index(slot_names, slot);
        const PerToken& old_root = old_roots_[index];
        for (std::size_t i = 0; i < old_root.size(); ++i) {
            c.stream[i] /= old_root[i];
            c.branch[i] /= old_root[i];
        }
        PerToken new_root(c.new_stream.size());
        const PerToken q = crossing().after().diagonal_of(combine(c).covariance);
        for (std::size_t j = 0; j < new_root.size(); ++j) {
            new_root[j] = std::sqrt(q[j] + epsilon_);
            c.new_stream[j] *= context_->kept() / new_root[j];
            c.new_branch[j] *= context_->kept() / new_root[j];
        }
        const NormStep& norm = norms[index];
        const double eta = context_->learning_rate;
        const CrossedKernel crossed = combine(c).crossed;
        CrossedKernel own(crossed.size());
        crossing().for_each_entry([&](std::size_t k, std::size_t i, std::size_t j) {
            own[k] = eta * (norm.gain.pull * crossed[k] + norm.bias.pull);
            if (c.own.size() > 0) own[k] += c.own[k] / (old_root[i] * new_root[j]);
        });
        c.own = std::move(own);
        return c;
    }
    template <class Left, class Right>
    Expression walk(const syntax::Sum<Left, Right>& e) {
        Expression c = walk(e.left);
        const Expression other = walk(e.right);
        const auto add = [](detail::ShortArray& to, const detail::ShortArray& from) {
            for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
        };
        add(c.stream, other.stream), add(c.branch, other.branch);
        add(c.new_stream, other.new_stream), add(c.new_branch, other.new_branch);
        if (c.own.size() > 0) add(c.own, other.own);
        else c.own = other.own;
        return c;
    }
    template <class Input>
    Expression walk(const syntax::Scaled<Input>& e) {
        Expression c = walk(e.input);
        const double factor = e.factor.at(depth_);
        for (detail::ShortArray* part : {&c.stream, &c.branch, &c.new_stream, &c.new_branch})
            for (double& a : *part) a *= factor;
        for (double& a : c.own) a *= factor * factor;
        return c;
    }

    // X = a_x^T (p G b) a_F with the root's p and b, which are those before the step.
    void share() {
        CrossedKernel x = stream_->amplitude, f = branch_.amplitude;
        crossing().for_each_entry([&](std::size_t e, std::size_t i, std::size_t) {
            x[e] *= root_.first[i];
            f[e] *= root_.second[i];
        });
        shared_ = crossing().between(x, before_.gradient, f);
        shared_transposed_ = crossing().transposed(shared_);
    }

    // Those of a node before the step, for all learning rates alike.
    Pair coefficients(syntax::Stream) const {
        return {PerToken(before_.stream.size(), 1.0), PerToken(before_.stream.size(), 0.0)};
    }
    template <class Input>
    Pair coefficients(const syntax::Sublayer<Input>& e) {
        coefficients(e.input);  // for its norms
        return {PerToken(before_.stream.size(), 0.0), PerToken(before_.stream.size(), 1.0)};
    }
    template <Label slot, class Input>
    Pair coefficients(const syntax::Norm<slot, Input>& e) {
        Pair c = coefficients(e.input);
        PerToken& root = old_roots_[syntax::slot_index(slot_names, slot)];
        root = PerToken(c.first.size());
        for (std::size_t i = 0; i < root.size(); ++i) {
            double q = c.first[i] * c.first[i] * before_.stream[i] + epsilon_;
            if (c.second[i] != 0.0) q += c.second[i] * c.second[i] * before_.branch[i];
            root[i] = std::sqrt(q);
            c.first[i] /= root[i];
            c.second[i] /= root[i];
        }
        return c;
    }
    template <class Left, class Right>
    Pair coefficients(const syntax::Sum<Left, Right>& e) {
        Pair c = coefficients(e.left);
        const Pair other = coefficients(e.right);
        for (std::size_t i = 0; i < c.first.size(); ++i) {
            c.first[i] += other.first[i];
            c.second[i] += other.second[i];
        }
        return c;
    }
    template <class Input>
    Pair coefficients(const syntax::Scaled<Input>& e) {
        Pair c = coefficients(e.input);
        for (double& a : c.first) a *= e.factor.at(depth_);
        for (double& b : c.second) b *= e.factor.at(depth_);
        return c;
    }

    double epsilon_;
    Depth depth_;
    const BlockBefore& before_;
    SublayerStep& sublayer_;
    std::array<PerToken, slot_names.size()> old_roots_{};  // of each norm, before the step
    Pair root_;                                            // the whole formula's coefficients, before the step
    const detail::StepContext* context_ = nullptr;
    const SteppedActivations* stream_ = nullptr;
    SteppedActivations branch_;
    TokenKernel shared_, shared_transposed_;
};

}  // namespace normplace
