// SPDX-License-Identifier: BSD-3-Clause
//
// The network before its first step, as far as the step is made of it: forward and backward as in stack_moments.hpp,
// and for every block the covariances, gradients and decomposed updates that step_moments.hpp and step_sublayer.hpp
// need. Then the new tokens of the next batch run through it after a step of any size.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <normplace/analysis/effective_freedom.hpp>
#include <normplace/analysis/loss_moments.hpp>
#include <normplace/analysis/spread_over_units.hpp>
#include <normplace/analysis/stack_moments.hpp>
#include <normplace/analysis/step_moments.hpp>

namespace normplace::detail {

/// A table's update meets no input that could fluctuate: what is not along the gradients is E u^2 - pull^2 E g^2.
inline StepDecomposition decompose_table_step(const StepRule& rule, double square) {
    StepDecomposition step = decompose_step(rule, square, std::numeric_limits<double>::infinity());
    step.noise = std::fmax(step.noise - step.pull * step.pull * square, 0.0);
    return step;
}
/// A bias's or a norm's.
inline StepDecomposition decompose_vector_step(const StepRule& rule, double square) {
    return rule.vectors ? decompose_table_step(rule, square) : StepDecomposition{};
}

/// BlockStep with what it stands on.
struct KeptBlockStep {
    const BlockBefore before;
    std::unique_ptr<SublayerStep> sublayer;
    BlockStep block;

    KeptBlockStep(const Plan& plan, double epsilon, BlockBefore given, std::unique_ptr<SublayerStep> step)
        : before(std::move(given)), sublayer(std::move(step)), block(plan, epsilon, before, *sublayer) {}
    KeptBlockStep(const KeptBlockStep&) = delete;
    KeptBlockStep& operator=(const KeptBlockStep&) = delete;
};

/// A sequence of the next batch as it enters the stack.
struct NewSequence {
    TokenKernel covariance;
    CrossedKernel crossed;
    /// What the steps of the embedding's tables add, per unit of learning rate and of its square; empty: no tables.
    CrossedKernel pull;
    TokenKernel noise;
};

/// @param scale of the tokens, squared: the placement's gain on embeddings
inline NewSequence random_sequence(const Crossing& crossing, double scale = 1.0) {
    NewSequence next{TokenKernel(crossing.after().entries()), crossing.zero(), {}, {}};
    for (std::size_t i = 0; i < crossing.columns(); ++i) next.covariance[crossing.after().diagonal(i)] = scale;
    return next;
}

/// The first sequence of a text's next batch. A table's row moves along the sum of the gradients of all old tokens that
/// read it.
inline NewSequence given_sequence(const Crossing& crossing, const FoldedKernel& input_gradient, const StepRule& rule,
                                  const TokenBatch& batch, const TokenBatch& next, double scale = 1.0) {
    const std::size_t tokens = batch.tokens.size(), sequence = batch.sequence;
    const int* const ids = next.tokens.data();
    std::vector<double> token_square(tokens), position_square(sequence);
    for (std::size_t i = 0; i < tokens; ++i)
        for (std::size_t k = 0; k < tokens; ++k) {
            const double g = input_gradient[i * tokens + k];
            if (i % sequence == k % sequence) position_square[i % sequence] += g;
            if (batch.tokens[i] != batch.tokens[k]) continue;
            for (std::size_t m = 0; m < tokens; ++m)
                if (batch.tokens[m] == batch.tokens[i]) token_square[m] += g;
        }
    std::vector<StepDecomposition> token(tokens), position(sequence);
    for (std::size_t i = 0; i < tokens; ++i) token[i] = decompose_table_step(rule, token_square[i]);
    for (std::size_t i = 0; i < sequence; ++i) position[i] = decompose_table_step(rule, position_square[i]);

    NewSequence result{TokenKernel(crossing.after().entries()), crossing.zero(), crossing.zero(),
                       TokenKernel(crossing.after().entries())};
    std::vector<double> token_noise(sequence);  // none for tokens that the old batch did not have
    crossing.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
        const bool same_token = batch.tokens[i] == ids[j], same_position = i % sequence == j;
        result.crossed[e] = scale * embedding_variance * (same_token + same_position);
        if (same_token) {
            result.pull[e] += token[i].pull;
            token_noise[j] = token[i].noise;
        }
        if (same_position) result.pull[e] += position[j].pull;
    });
    crossing.after().for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
        const bool same_token = ids[i] == ids[j];
        result.covariance[e] = scale * embedding_variance * (same_token + (i == j));
        if (same_token) result.noise[e] += token_noise[j];
        if (i == j) result.noise[e] += position[j].noise;
    });
    return result;
}

class NetworkBeforeStep {
public:
    NetworkBeforeStep(const AnyPlacement& placement, const ReferenceModel& model, const StepRule& rule,
                      const PredictionInput& input)
        : placement_(placement),
          plans_(placement.formula),
          model_(model),
          rule_(rule),
          crossing_(std::make_unique<Crossing>(input.layout, model.causal)),
          kernel_(std::make_unique<ActivationKernel>(model.activation)),
          softmax_(std::make_unique<SoftmaxTable>()) {
        forward(input.stream);
        backward(loss_moments(input, model_, streams_.back(), placement_.final_norm(), *softmax_));
    }

    const Crossing& crossing() const { return *crossing_; }
    /// Where the theory leaves the range in which it holds.
    const std::vector<std::string>& warnings() const { return warnings_; }
    /// Summed over old tokens, at the stack's input.
    const FoldedKernel& input_gradient() const { return input_gradient_; }

    /// Calls `visit` with the stream after each block, and returns the last hidden state.
    template <class Visit>
    SteppedActivations run(const NewSequence& next, const StepContext& context, Visit&& visit) const {
        const double eta = context.learning_rate, kept = context.kept();
        const TokenLayout& layout = crossing_->after();
        SteppedActivations x{next.covariance, next.crossed, crossing_->zero(), TokenKernel(layout.entries())};
        if (next.pull.size() > 0) {
            for (std::size_t e = 0; e < x.crossed.size(); ++e) {
                x.crossed[e] *= kept;
                x.amplitude[e] = eta * next.pull[e];
            }
            for (std::size_t e = 0; e < x.covariance.size(); ++e) {
                x.change[e] = eta * eta * next.noise[e];
                x.covariance[e] = kept * kept * x.covariance[e] + x.change[e];
            }
            add_coherent(context, input_gradient_, x);
        }
        for (const std::unique_ptr<KeptBlockStep>& kept_block : blocks_) {
            x = kept_block->block.step(context, x);
            visit(x);
        }
        if (!placement_.final_norm()) return x;
        PerToken root = layout.diagonal_of(x.covariance);
        for (double& r : root) r = std::sqrt(r + model_.epsilon);
        layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            x.covariance[e] /= root[i] * root[j];
            x.change[e] /= root[i] * root[j];
        });
        return x;
    }

private:
    BlockMoments block(const Depth& depth, SublayerMoments& sublayer) {
        return {plans_.at(depth), crossing_->before(), static_cast<double>(model_.width), norm_, sublayer};
    }
    StackScales scales() const { return {placement_, model_}; }

    void forward(const TokenKernel& input) {
        const double width = static_cast<double>(model_.width);
        streams_ = {input};
        fluctuations_.assign(1, StreamFluctuations{});
        fluctuations_[0][0] = {0.0, 1.0 / width, 2.0 / width, 0.0};
        ScoreRange scores(model_.sequence);
        for (std::size_t l = 1; l <= model_.layers; ++l) {
            const auto run = [&](SublayerKind kind, SublayerMoments& sublayer) {
                fluctuations_.push_back(fluctuations_.back());
                BlockMoments walk = block(Depth{l, model_.layers, kind}, sublayer);
                streams_.push_back(walk.forward(streams_.back(), fluctuations_.back())[0]);
            };
            AttentionMoments attention(crossing_->before(), scales().attention(l, SublayerKind::attention), *softmax_);
            run(SublayerKind::attention, attention);
            scores.check(attention.score_variance(), l);
            FeedForwardMoments feed_forward(crossing_->before(), scales().feed_forward(l), *kernel_);
            run(SublayerKind::feed_forward, feed_forward);
        }
        scores.warn("the attention", warnings_);
        for (std::string& warning : warnings_) warning += "; so is the step, which is made of them";
    }

    void backward(LossMoments loss) {
        TokenKernel gradient = std::move(loss.gradient);
        blocks_.resize(2 * model_.layers);
        for (std::size_t b = blocks_.size(); b-- > 0;) {
            const bool attends = b % 2 == 0;
            const Depth depth{b / 2 + 1, model_.layers, attends ? SublayerKind::attention : SublayerKind::feed_forward};
            streams_.pop_back();
            fluctuations_.pop_back();
            if (attends) {
                const AttentionScales s = scales().attention(depth.layer, depth.sublayer);
                AttentionMoments sublayer(crossing_->before(), s, *softmax_);
                keep(depth, b, sublayer, sublayer.heads(), s.out, gradient,
                     [&] { return attention_step(s, sublayer); });
            } else {
                const FeedForwardScales s = scales().feed_forward(depth.layer);
                FeedForwardMoments sublayer(crossing_->before(), s, *kernel_);
                keep(depth, b, sublayer, sublayer.activated(), s.linear2, gradient,
                     [&] { return feed_forward_step(s, sublayer); });
            }
        }
        input_gradient_ = crossing_->fold(gradient);
        streams_.clear();
        fluctuations_.clear();
    }

    /// Backward through one block, and its step. F's covariances are `scale` times `last`, those before its last
    /// matrix.
    template <class Step>
    void keep(const Depth& depth, std::size_t index, SublayerMoments& sublayer, const TokenKernel& last, double scale,
              TokenKernel& gradient, const Step& step) {
        BlockMoments walk = block(depth, sublayer);
        walk.prepare(streams_.back(), fluctuations_.back());
        BlockBefore before;
        before.gradient = crossing_->fold(gradient);
        gradient = walk.backward(gradient)[0];
        before.stream = crossing_->before().diagonal_of(streams_.back());
        before.branch = crossing_->before().diagonal_of(last);
        for (double& q : before.branch) q *= scale;
        const double width = static_cast<double>(model_.width);
        blocks_[index] = std::make_unique<KeptBlockStep>(plans_.at(depth), model_.epsilon, std::move(before), step());
        for (std::size_t i = 0; i < walk.norms.size(); ++i)
            blocks_[index]->block.norms[i] = {decompose_vector_step(rule_, walk.norms[i].gain / width),
                                              decompose_vector_step(rule_, walk.norms[i].bias / width)};
    }

    /// From the expected squared gradient norms of a rows x columns matrix and of its bias.
    MatrixStep matrix(double scale, double rows, double columns, double square, double freedom,
                      double bias_square) const {
        return {scale, columns, decompose_step(rule_, square / (rows * columns), freedom),
                decompose_vector_step(rule_, bias_square / rows)};
    }

    std::unique_ptr<SublayerStep> attention_step(const AttentionScales& s, const AttentionMoments& sublayer) const {
        constexpr double many = std::numeric_limits<double>::infinity();
        auto step = std::make_unique<AttentionStep>(s, *softmax_);
        const TokenKernel& output = sublayer.output_gradient();
        TokenKernel heads = output;
        for (double& g : heads) g *= s.out;
        const double d = s.width, freedom = effective_freedom(*crossing_, sublayer.heads(), output);
        const AttentionSquares& squares = sublayer.squares;
        step->query = matrix(s.query, d, d, squares.wq, many, squares.bq);
        step->key = matrix(s.key, d, d, squares.wk, many, 0.0);
        step->value = matrix(s.value, d, d, squares.wv, freedom, squares.bv);
        step->out = matrix(s.out, d, d, squares.wo, freedom, squares.bo);
        step->queries = query_ratios(crossing_->before(), sublayer.input(), sublayer.softmax());
        step->heads_gradient = crossing_->fold(heads);
        step->output_gradient = crossing_->fold(output);
        return step;
    }

    /// The share of tr K G that pairs of different tokens have.
    double together(const TokenKernel& k, const TokenKernel& g) const {
        const TokenLayout& layout = crossing_->before();
        TokenKernel product = k;
        for (std::size_t e = 0; e < k.size(); ++e) product[e] *= g[e];
        const double all = layout.total(product);
        return all > 0.0 ? 1.0 - layout.trace(product) / all : 0.0;
    }

    std::unique_ptr<SublayerStep> feed_forward_step(const FeedForwardScales& s,
                                                    const FeedForwardMoments& sublayer) const {
        auto step = std::make_unique<FeedForwardStep>(*kernel_);
        const TokenKernel& output = sublayer.output_gradient();
        TokenKernel hidden = output;
        for (std::size_t e = 0; e < hidden.size(); ++e)
            hidden[e] *= s.linear2 * s.width / s.feed_forward * sublayer.derivative()[e];
        const FeedForwardSquares& squares = sublayer.squares;
        const TokenLayout& layout = crossing_->before();
        const double trace = layout.trace(sublayer.input()), tokens = layout.tokens();
        const double rho = tokens > 1.0 ? (layout.total(sublayer.input()) - trace) / ((tokens - 1.0) * trace) : 0.0;
        // As if the entries of some units had it all, which gives a sign step's pull and leaves a linear one's.
        SpreadOverUnits spread;
        if (rule_.sign)
            spread = spread_over_units(model_.activation, s.linear1 * trace / tokens, rho,
                                       together(sublayer.activated(), output));
        step->linear1 = matrix(s.linear1, s.feed_forward, s.width, squares.w1 / (spread.derivative * spread.derivative),
                               effective_freedom(*crossing_, sublayer.input(), hidden), squares.b1);
        step->linear2 = matrix(s.linear2, s.width, s.feed_forward, squares.w2 / (spread.value * spread.value),
                               std::numeric_limits<double>::infinity(), squares.b2);
        step->pre_activation = crossing_->before().diagonal_of(sublayer.input());
        for (double& q : step->pre_activation) q *= s.linear1;
        step->hidden_gradient = crossing_->fold(hidden);
        step->output_gradient = crossing_->fold(output);
        return step;
    }

    AnyPlacement placement_;
    Plans plans_;
    ReferenceModel model_;
    NormMoments norm_{model_.norm, static_cast<double>(model_.width), model_.epsilon};
    StepRule rule_;
    std::unique_ptr<Crossing> crossing_;  // in place when the network is moved, as are the next two
    std::unique_ptr<ActivationKernel> kernel_;
    std::unique_ptr<SoftmaxTable> softmax_;
    std::vector<std::unique_ptr<KeptBlockStep>> blocks_;
    FoldedKernel input_gradient_;
    std::vector<std::string> warnings_;
    std::vector<TokenKernel> streams_;  // while forward and backward run
    std::vector<StreamFluctuations> fluctuations_;
};

}  // namespace normplace::detail
