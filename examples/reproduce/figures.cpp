// SPDX-License-Identifier: BSD-3-Clause
#include "figures.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "reference_gradients.hpp"
#include "statistics.hpp"

namespace reproduce {
namespace {

std::string rate_text(double rate) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", rate);
    return text;
}

// ---- training curves -----------------------------------------------------------------------------------------------

double loss_of(const training::Point& point) { return point.validation.loss; }

/// What is drawn of a run: values by step.
using Measure = std::map<std::uint64_t, double>(const Outcome&);

std::map<std::uint64_t, double> losses(const Outcome& seed) {
    std::map<std::uint64_t, double> values;
    for (const training::Point& point : seed.points) values[point.step] = loss_of(point);
    return values;
}
std::map<std::uint64_t, double> accuracies(const Outcome& seed) {
    std::map<std::uint64_t, double> values;
    for (const training::Point& point : seed.points) values[point.step] = 100.0 * point.validation.accuracy;
    return values;
}
std::map<std::uint64_t, double> bleu_scores(const Outcome& seed) {
    std::map<std::uint64_t, double> values;
    for (const Score& score : seed.scores) values[score.step] = score.bleu;
    return values;
}
std::map<std::uint64_t, double> exact_matches(const Outcome& seed) {
    std::map<std::uint64_t, double> values;
    for (const Score& score : seed.scores) values[score.step] = score.exact_match;
    return values;
}

/// The mean at each step that any seed reached; a seed that diverged is in no later one.
Series curve(const std::string& name, const std::vector<Outcome>& seeds, Measure* measure = losses) {
    Series series;
    series.name = name;
    std::map<std::uint64_t, std::vector<double>> by_step;
    for (const Outcome& seed : seeds)
        for (const auto& [step, value] : measure(seed)) by_step[step].push_back(value);
    std::size_t lost = 0;
    for (const Outcome& seed : seeds) lost += !seed.divergence.empty();
    if (lost) series.name += " (" + std::to_string(lost) + " of " + std::to_string(seeds.size()) + " diverged)";
    for (const auto& [step, values] : by_step) {
        const Mean mean = mean_of(values);
        series.x.push_back(static_cast<double>(step));
        series.y.push_back(mean.value);
        if (seeds.size() > 1) series.error.push_back(mean.error);
    }
    return series;
}

/// The last validation loss of each seed; infinite where it diverged.
std::vector<double> final_losses(const std::vector<Outcome>& seeds) {
    std::vector<double> losses;
    for (const Outcome& seed : seeds)
        losses.push_back(seed.divergence.empty() ? loss_of(seed.points.back())
                                                 : std::numeric_limits<double>::infinity());
    return losses;
}

/// Over the seeds that did not diverge.
template <class Value>
Mean mean_over(const std::vector<Outcome>& seeds, const Value& value) {
    std::vector<double> values;
    for (const Outcome& seed : seeds)
        if (seed.divergence.empty()) values.push_back(value(seed));
    return mean_of(values);
}

std::size_t diverged(const std::vector<Outcome>& seeds) {
    return static_cast<std::size_t>(
        std::count_if(seeds.begin(), seeds.end(), [](const Outcome& seed) { return !seed.divergence.empty(); }));
}

/// The step at which a curve first reaches `loss`, between two points on the line that joins them; NaN if it does not.
double step_of(const Series& series, double loss) {
    for (std::size_t i = 0; i < series.x.size(); ++i) {
        if (series.y[i] > loss) continue;
        if (i == 0) return series.x[0];
        const double part = (series.y[i - 1] - loss) / (series.y[i - 1] - series.y[i]);
        return series.x[i - 1] + part * (series.x[i] - series.x[i - 1]);
    }
    return std::numeric_limits<double>::quiet_NaN();
}

/// Whether a is larger than b, seed by seed, by more than chance: the 95 % interval of the mean difference. Of one seed
/// nobody knows what chance does; 5 % has to do.
Verdict larger(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> gaps;
    std::size_t only_a = 0, only_b = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::isinf(a[i]) && !std::isinf(b[i])) ++only_a;
        if (std::isinf(b[i]) && !std::isinf(a[i])) ++only_b;
        if (std::isfinite(a[i]) && std::isfinite(b[i])) gaps.push_back(a[i] - b[i]);
    }
    if (2 * only_a > a.size()) return Verdict::holds;
    if (2 * only_b > a.size()) return Verdict::does_not_hold;
    if (gaps.empty()) return Verdict::undecided;
    const Mean gap = mean_of(gaps);
    const double margin = gaps.size() > 1 ? uncertainty(gap) : 0.05 * std::abs(b[0]);
    if (gap.value > margin) return Verdict::holds;
    return gap.value < -margin ? Verdict::does_not_hold : Verdict::undecided;
}

struct Runs {
    const Setting& setting;
    const Experiments& experiments;

    double large() const { return setting.rates.back(); }
    const std::vector<Outcome>& of(const Variant& variant) const { return experiments.outcomes(variant); }
    bool has_test() const { return experiments.translation().test.size() > 0; }
    bool numbers() const { return experiments.translation().numbers; }
    /// "validation loss 1.11 ± 0.02, BLEU 17.3 ± 0.4, exact match 0.2 ± 0.1 %"
    std::string end_of(const Variant& variant) const {
        const auto& outcomes = of(variant);
        const std::size_t lost = diverged(outcomes);
        std::string text;
        if (lost) text = std::to_string(lost) + " of " + std::to_string(outcomes.size()) + " seeds diverged";
        if (lost == outcomes.size()) return text;
        text += (lost ? ", the others at " : "") + std::string("validation loss ") +
                text_of(mean_over(outcomes, [](const Outcome& seed) { return loss_of(seed.points.back()); }));
        if (variant.masked || !has_test()) return text;
        text +=
            ", BLEU " + text_of(mean_over(outcomes, [](const Outcome& seed) { return seed.scores.back().bleu; }), 1);
        if (!numbers()) return text;
        const auto exact_match = [](const Outcome& seed) { return seed.scores.back().exact_match; };
        return text + ", exact match " + text_of(mean_over(outcomes, exact_match), 1) + " %";
    }
};

struct Line {
    std::string name;
    Variant variant;
};

Plot training_plot(const Runs& runs, const std::string& name, const std::string& title, const std::string& y_label,
                   const std::vector<Line>& lines, Measure* measure) {
    Plot plot{.name = name, .title = title, .x_label = "step", .y_label = y_label};
    if (measure != losses) plot.least_span = 5.0;  // percent
    for (const Line& line : lines) plot.series.push_back(curve(line.name, runs.of(line.variant), measure));
    return plot;
}

/// The validation loss, and beside it what the paper has beside it, the score: BLEU, or a language model's accuracy.
void add_plots(Figure& figure, const Runs& runs, const std::string& name, const std::string& title,
               const std::vector<Line>& lines) {
    figure.plots.push_back(
        training_plot(runs, name, title + ": loss", "validation loss, nats per token", lines, losses));
    if (lines[0].variant.masked)
        figure.plots.push_back(training_plot(runs, name + "-accuracy", title + ": accuracy",
                                             "hidden tokens that were found, %", lines, accuracies));
    else if (runs.has_test())
        figure.plots.push_back(
            training_plot(runs, name + "-bleu", title + ": BLEU", "BLEU of the test set", lines, bleu_scores));
}

Variant post(double rate, std::uint64_t warm_up, const std::string& optimizer = "adam") {
    return {.placement = "post-ln", .optimizer = optimizer, .learning_rate = rate, .warm_up = warm_up};
}
Variant pre(double rate, const std::string& optimizer = "adam") {
    return {.placement = "pre-ln", .optimizer = optimizer, .learning_rate = rate};
}
Variant masked(Variant variant) {
    variant.masked = true;
    return variant;
}

/// Of Figure 2.
std::array<std::uint64_t, 3> warm_ups(const Setting& setting) { return {0, setting.short_warm_up, setting.warm_up}; }

std::string warm_up_text(std::uint64_t steps) {
    return steps ? "warm-up " + std::to_string(steps) : std::string("no warm-up");
}

Figure figure_2(const Runs& runs) {
    const Setting& setting = runs.setting;
    Figure figure;
    figure.title = "Figure 2: Post-LN with and without warm-up";
    figure.setting = "The paper warms up over 1, 500 and 4000 steps; here 0, " + std::to_string(setting.short_warm_up) +
                     " and " + std::to_string(setting.warm_up) + " of " + std::to_string(setting.steps) +
                     " steps. After the warm-up the rate is constant, so that the curves differ in nothing else.";
    if (runs.has_test())
        figure.setting +=
            std::string(" BLEU is of the test set, translated ") + (runs.numbers() ? "greedily." : "by a beam of 4.");
    const auto add = [&](double rate, const std::string& optimizer, const std::string& name) {
        std::vector<Line> lines;
        for (const std::uint64_t warm_up : warm_ups(setting))
            lines.push_back({warm_up_text(warm_up), post(rate, warm_up, optimizer)});
        add_plots(figure, runs, "figure-2-" + optimizer + "-" + rate_text(rate),
                  "Post-LN, " + name + " at " + rate_text(rate), lines);
    };
    for (const double rate : setting.rates) add(rate, "adam", "Adam");
    for (const double rate : setting.sgd_rates) add(rate, "sgd", "SGD");

    const auto against = [&](const std::string& paper, const Variant& worse, const Variant& better,
                             const std::string& at) {
        figure.claims.push_back({paper,
                                 at + ": " + warm_up_text(worse.warm_up) + " ends at " + runs.end_of(worse) + "; " +
                                     warm_up_text(better.warm_up) + " at " + runs.end_of(better),
                                 larger(final_losses(runs.of(worse)), final_losses(runs.of(better)))});
    };
    const double large = runs.large();
    against("Without warm-up, Post-LN trained by Adam ends far worse (BLEU 8.45 against 34).", post(large, 0),
            post(large, setting.warm_up), "Adam at " + rate_text(large));
    against("So does a warm-up that is too short (500 of 4000 steps, at the larger learning rate).",
            post(large, setting.short_warm_up), post(large, setting.warm_up), "Adam at " + rate_text(large));
    const double sgd_rate = setting.sgd_rates.back();
    against("It is not Adam alone: SGD too is worse without warm-up.", post(sgd_rate, 0, "sgd"),
            post(sgd_rate, setting.warm_up, "sgd"), "SGD at " + rate_text(sgd_rate));
    return figure;
}

// ---- gradients -----------------------------------------------------------------------------------------------------

Series layers_series(const std::string& name, const std::vector<std::vector<double>>& seeds, bool points) {
    Series series;
    series.name = name;
    series.points = points;
    for (std::size_t l = 0; !seeds.empty() && l < seeds[0].size(); ++l) {
        std::vector<double> squares;
        for (const auto& seed : seeds) squares.push_back(seed[l] * seed[l]);
        const Mean mean = mean_of(squares);
        const double root = std::sqrt(mean.value);
        series.x.push_back(static_cast<double>(l + 1));
        series.y.push_back(root);
        if (seeds.size() > 1) series.error.push_back(mean.error / (2.0 * root));
    }
    return series;
}

/// predicted / measured, and its standard error
struct Ratio {
    double value = 1.0, error = 0.0;
    /// How far from 1 it is beyond two standard errors, as a logarithm.
    double beyond() const { return std::max(0.0, std::abs(std::log(value)) - 2.0 * error / value); }
};

/// The ratio of W_1 or W_2, of all layers of both stacks, that is farthest from 1.
Ratio worst_ratio(const np::EncoderDecoderReport& predicted, const np::EncoderDecoderReport& measured) {
    Ratio worst;
    const auto compare = [&](const np::GradientNorm& p, const np::GradientNorm& m) {
        const double ratio = p.norm / m.norm;
        if (std::abs(std::log(ratio)) > std::abs(std::log(worst.value)))
            worst = {ratio, ratio * m.standard_error / m.norm};
    };
    const auto compare_stacks = [&](const auto& p, const auto& m) {
        for (std::size_t l = 0; l < p.layers.size(); ++l) {
            compare(p.layers[l].w1, m.layers[l].w1);
            compare(p.layers[l].w2, m.layers[l].w2);
        }
    };
    compare_stacks(predicted.encoder, measured.encoder);
    compare_stacks(predicted.decoder, measured.decoder);
    return worst;
}

Figure figure_3(const Runs& runs) {
    const Setting& setting = runs.setting;
    Figure figure;
    figure.title = "Figure 3: gradients at initialization and after warm-up";
    figure.setting = "Lines are predicted, with nothing fitted; points are measured, root mean square over " +
                     std::to_string(setting.reference_seeds) +
                     " seeds. Gaussian tokens: the model that the prediction is for. Corpus: a batch of the text, "
                     "tied embeddings, over " +
                     std::to_string(setting.gradient_seeds) + " seeds at initialization and " +
                     std::to_string(setting.seeds) + " after the warm-up of Figure 2's run at the larger rate.";
    const std::vector<std::string> placements{"post-ln", "pre-ln"};
    np::EncoderDecoderModel model;
    model.encoder_layers = model.decoder_layers = setting.layers;
    model.width = setting.width;
    model.heads = setting.heads;
    model.feed_forward = setting.feed_forward;
    model.source = model.target = 16;
    model.batch = 8;
    model.vocabulary = 500;

    std::map<std::string, np::EncoderDecoderReport> predicted, measured;
    for (const std::string& placement : placements) {
        predicted.emplace(placement, predict_gradients(placement, model));
        measured.emplace(placement, measure_gradients(placement, model, setting.reference_seeds));
    }
    const auto take = [](const auto& layers, auto member) {
        std::vector<double> norms;
        for (const auto& layer : layers) norms.push_back((layer.*member).norm);
        return norms;
    };
    struct Matrix {
        const char *name, *file;
        np::GradientNorm np::LayerReport::*member;
        std::vector<double> LayerGradients::*corpus;
    };
    std::map<std::string, std::vector<LayerGradients>> corpus;
    for (const std::string& placement : placements)
        for (std::size_t seed = 1; seed <= setting.gradient_seeds; ++seed)
            corpus[placement].push_back(runs.experiments.gradients(placement, setting.layers, seed));
    const auto by_seed = [](const std::vector<LayerGradients>& seeds, auto member) {
        std::vector<std::vector<double>> norms;
        for (const LayerGradients& seed : seeds) norms.push_back(seed.*member);
        return norms;
    };
    std::vector<LayerGradients> started, warmed_up;  // of the same runs
    for (const Outcome& outcome : runs.of(post(runs.large(), setting.warm_up))) {
        if (outcome.after_warm_up.decoder_w2.empty()) continue;
        started.push_back(outcome.at_start);
        warmed_up.push_back(outcome.after_warm_up);
    }

    for (const Matrix& matrix : {Matrix{"W_1", "w1", &np::LayerReport::w1, &LayerGradients::decoder_w1},
                                 Matrix{"W_2", "w2", &np::LayerReport::w2, &LayerGradients::decoder_w2}}) {
        Plot gaussian{.name = std::string("figure-3-") + matrix.file + "-gaussian",
                      .title = std::string("Gradient norm of the decoder's ") + matrix.name + ", Gaussian tokens",
                      .x_label = "decoder layer",
                      .y_label = std::string("||dLoss/d") + matrix.name + "||",
                      .log_y = true};
        for (const std::string& placement : placements) {
            gaussian.series.push_back(layers_series(
                placement + ", predicted", {take(predicted.at(placement).decoder.layers, matrix.member)}, false));
            Series points = layers_series(placement + ", measured",
                                          {take(measured.at(placement).decoder.layers, matrix.member)}, true);
            for (const np::DecoderLayerReport& layer : measured.at(placement).decoder.layers)
                points.error.push_back((layer.*matrix.member).standard_error);
            gaussian.series.push_back(std::move(points));
        }
        figure.plots.push_back(std::move(gaussian));

        Plot text{.name = std::string("figure-3-") + matrix.file + "-corpus",
                  .title = std::string("Gradient norm of the decoder's ") + matrix.name + ", corpus",
                  .x_label = "decoder layer",
                  .y_label = std::string("||dLoss/d") + matrix.name + "||",
                  .log_y = true};
        for (const std::string& placement : placements)
            text.series.push_back(
                layers_series(placement + ", at initialization", by_seed(corpus.at(placement), matrix.corpus), true));
        text.series.push_back(layers_series("post-ln, after warm-up", by_seed(warmed_up, matrix.corpus), true));
        figure.plots.push_back(std::move(text));
    }

    // The last layer over depth.
    Plot depth{.name = "figure-3-depth",
               .title = "Gradient norm of W_2 in the decoder's last layer, Gaussian tokens",
               .x_label = "layers of each stack",
               .y_label = "||dLoss/dW_2||",
               .log_y = true};
    std::map<std::string, double> powers;
    for (const std::string& placement : placements) {
        Series line, points;
        line.name = placement + ", predicted";
        points.name = placement + ", measured";
        points.points = true;
        for (const std::size_t layers : setting.depths) {
            model.encoder_layers = model.decoder_layers = layers;
            const np::GradientNorm
                there = predict_gradients(placement, model).decoder.layers.back().w2,
                seen = measure_gradients(placement, model, setting.reference_seeds).decoder.layers.back().w2;
            line.x.push_back(static_cast<double>(layers));
            line.y.push_back(there.norm);
            points.x.push_back(static_cast<double>(layers));
            points.y.push_back(seen.norm);
            points.error.push_back(seen.standard_error);
        }
        powers[placement] = power(points.x, points.y);
        depth.series.push_back(std::move(line));
        depth.series.push_back(std::move(points));
    }
    figure.plots.push_back(std::move(depth));

    const auto growth = [&](const std::string& placement) {
        const auto& layers = measured.at(placement).decoder.layers;
        return layers.back().w2.norm / layers.front().w2.norm;
    };
    const auto says = [](bool condition) { return condition ? Verdict::holds : Verdict::does_not_hold; };
    const double post_growth = growth("post-ln"), pre_growth = growth("pre-ln");
    figure.claims.push_back({"At initialization, Post-LN's gradients grow with the layer, toward the output.",
                             "||dLoss/dW_2|| of the decoder's last layer over that of its first: " +
                                 number_text(post_growth) + " with Gaussian tokens",
                             says(post_growth > 1.5)});
    figure.claims.push_back({"Pre-LN's are about the same in all layers.", "the same ratio: " + number_text(pre_growth),
                             says(pre_growth > 0.67 && pre_growth < 1.5)});
    figure.claims.push_back({"The last layer's gradient does not depend on the depth L in Post-LN.",
                             "it goes as L to the power " + number_text(powers.at("post-ln")),
                             says(std::abs(powers.at("post-ln")) < 0.1)});
    figure.claims.push_back({"It falls as 1/sqrt(L) in Pre-LN, for large L.",
                             "it goes as L to the power " + number_text(powers.at("pre-ln")),
                             says(powers.at("pre-ln") < -0.35 && powers.at("pre-ln") > -0.65)});
    if (!warmed_up.empty()) {
        const auto last = [&](const std::vector<LayerGradients>& seeds) {
            return layers_series("", by_seed(seeds, &LayerGradients::decoder_w2), true).y.back();
        };
        const double before = last(started), after = last(warmed_up);
        figure.claims.push_back({"After the warm-up, Post-LN's gradients are small.",
                                 "||dLoss/dW_2|| of the decoder's last layer falls from " + number_text(before, 3) +
                                     " to " + number_text(after, 3) + " on the corpus",
                                 says(after < 0.5 * before)});
    }
    std::string worst;
    bool close = true;
    for (const std::string& placement : placements) {
        const Ratio ratio = worst_ratio(predicted.at(placement), measured.at(placement));
        worst +=
            (worst.empty() ? "" : ", ") + placement + " " + number_text(ratio.value) + " ± " + number_text(ratio.error);
        close = close && ratio.beyond() < 0.05;
    }
    figure.claims.push_back({"(This library:) the gradient of every matrix can be predicted, within 5 %.",
                             "predicted over measured, the W_1 or W_2 of both stacks that is farthest off: " + worst +
                                 "; the theory's errors fall as 1/width",
                             says(close)});
    return figure;
}

// ---- Pre-LN without warm-up ----------------------------------------------------------------------------------------

/// Whether each seed of Pre-LN reaches, in fewer steps, the loss that Post-LN ends at (mean over its seeds).
Claim faster(const std::string& paper, const Runs& runs, const Variant& pre_ln, const Variant& post_ln) {
    const auto &pre_seeds = runs.of(pre_ln), &post_seeds = runs.of(post_ln);
    if (diverged(post_seeds) == post_seeds.size())
        return {paper, "Post-LN with warm-up: " + runs.end_of(post_ln) + "; Pre-LN without: " + runs.end_of(pre_ln),
                diverged(pre_seeds) < pre_seeds.size() ? Verdict::holds : Verdict::undecided};
    const double end = mean_over(post_seeds, [](const Outcome& seed) { return loss_of(seed.points.back()); }).value;
    double all = 0.0;
    for (const Outcome& seed : post_seeds)
        if (seed.divergence.empty()) all = static_cast<double>(seed.points.back().step);
    std::vector<double> steps;
    for (const Outcome& seed : pre_seeds) {
        const double step = step_of(curve("", {seed}), end);
        if (!std::isnan(step)) steps.push_back(step);
    }
    const std::string ends =
        "Post-LN with warm-up ends at " + runs.end_of(post_ln) + " after " + number_text(all, 0) + " steps; ";
    if (steps.empty())
        return {paper, ends + "Pre-LN without never is there, and ends at " + runs.end_of(pre_ln),
                Verdict::does_not_hold};
    const Mean mean = mean_of(steps);
    const double latest = mean.value + (steps.size() > 1 ? uncertainty(mean) : 0.05 * all);
    std::string reached = "Pre-LN without is there after " + text_of(mean, 0);
    if (steps.size() < pre_seeds.size())
        reached += " (" + std::to_string(steps.size()) + " of " + std::to_string(pre_seeds.size()) + " seeds)";
    return {paper, ends + reached + ", and ends at " + runs.end_of(pre_ln),
            steps.size() == pre_seeds.size() && latest < all ? Verdict::holds : Verdict::undecided};
}

Figure figure_4(const Runs& runs) {
    const Setting& setting = runs.setting;
    const double large = runs.large();
    Figure figure;
    figure.title = "Figure 4: Pre-LN without warm-up against Post-LN with it";
    figure.setting =
        "Translation, with Adam and with RAdam (Liu et al. 2019), which is to make warm-up unnecessary by "
        "another way. RAdam runs have no warm-up.";
    std::vector<Line> adam;
    for (const double rate : setting.rates) {
        adam.push_back(
            {"post-ln, " + rate_text(rate) + ", " + warm_up_text(setting.warm_up), post(rate, setting.warm_up)});
        adam.push_back({"pre-ln, " + rate_text(rate) + ", no warm-up", pre(rate)});
    }
    const std::vector<Line> radam{{"post-ln, RAdam", post(large, 0, "radam")},
                                  {"pre-ln, RAdam", pre(large, "radam")},
                                  {"pre-ln, Adam", pre(large)}};
    const std::string radam_title = "RAdam at " + rate_text(large) + ", no warm-up";
    add_plots(figure, runs, "figure-4-adam", "Adam", adam);
    add_plots(figure, runs, "figure-4-radam", radam_title, radam);
    if (runs.numbers()) {
        const std::string label = "exact match of the test set, %";
        figure.plots.push_back(
            training_plot(runs, "figure-4-adam-exact", "Adam: exact match", label, adam, exact_matches));
        figure.plots.push_back(
            training_plot(runs, "figure-4-radam-exact", radam_title + ": exact match", label, radam, exact_matches));
    }

    for (const double rate : setting.rates)
        figure.claims.push_back(faster("Pre-LN without warm-up reaches Post-LN's loss in fewer steps (learning rate " +
                                           rate_text(rate) + " here).",
                                       runs, pre(rate), post(rate, setting.warm_up)));
    const auto adam_pre = final_losses(runs.of(pre(large))), radam_pre = final_losses(runs.of(pre(large, "radam"))),
               radam_post = final_losses(runs.of(post(large, 0, "radam")));
    std::vector<double> by_optimizer, by_placement;
    for (std::size_t seed = 0; seed < adam_pre.size(); ++seed) {
        by_optimizer.push_back(std::abs(adam_pre[seed] - radam_pre[seed]));
        by_placement.push_back(std::abs(radam_post[seed] - radam_pre[seed]));
    }
    figure.claims.push_back({"The step from Post-LN to Pre-LN matters more than that from Adam to RAdam.",
                             "Pre-LN by Adam ends at " + runs.end_of(pre(large)) + "; by RAdam at " +
                                 runs.end_of(pre(large, "radam")) + "; Post-LN by RAdam at " +
                                 runs.end_of(post(large, 0, "radam")),
                             larger(by_placement, by_optimizer)});
    return figure;
}

Figure figure_5(const Runs& runs) {
    const Setting& setting = runs.setting;
    const double large = runs.large();
    Figure figure;
    figure.title = "Figure 5: masked language model";
    figure.setting =
        "The paper trains BERT; here the encoder alone, on the target side of the corpus (both sides of the "
        "number names), " +
        std::to_string(setting.data.sequence) + " tokens a sequence, Adam at " + rate_text(large) +
        ". Where the paper has the scores of tasks that BERT is tuned for, here is how many hidden tokens are found.";
    const Variant post_warm = masked(post(large, setting.warm_up)), post_cold = masked(post(large, 0)),
                  pre_cold = masked(pre(large));
    add_plots(figure, runs, "figure-5", "Masked language model, Adam at " + rate_text(large),
              {{"post-ln, " + warm_up_text(setting.warm_up), post_warm},
               {"post-ln, no warm-up", post_cold},
               {"pre-ln, no warm-up", pre_cold}});
    figure.claims.push_back(faster("Pre-LN without warm-up reaches Post-LN's loss in fewer steps (by 40 % in BERT).",
                                   runs, pre_cold, post_warm));
    return figure;
}

}  // namespace

void want_runs(const Setting& setting, const std::vector<int>& figures, Experiments& experiments) {
    const double large = setting.rates.back();
    const auto wanted = [&](int figure) { return std::find(figures.begin(), figures.end(), figure) != figures.end(); };
    // The slow ones, and those that several figures need, first.
    if (wanted(2) || wanted(3) || wanted(4)) experiments.want(post(large, setting.warm_up));
    if (wanted(4)) {
        for (const double rate : setting.rates) {
            experiments.want(pre(rate));
            experiments.want(post(rate, setting.warm_up));
        }
        experiments.want(post(large, 0, "radam"));
        experiments.want(pre(large, "radam"));
    }
    if (wanted(2)) {
        for (const std::uint64_t warm_up : warm_ups(setting)) {
            for (const double rate : setting.rates) experiments.want(post(rate, warm_up));
            for (const double rate : setting.sgd_rates) experiments.want(post(rate, warm_up, "sgd"));
        }
    }
    if (wanted(5)) {
        experiments.want(masked(post(large, setting.warm_up)));
        experiments.want(masked(post(large, 0)));
        experiments.want(masked(pre(large)));
    }
}

std::vector<Figure> make_figures(const Setting& setting, const std::vector<int>& figures,
                                 const Experiments& experiments) {
    const Runs runs{setting, experiments};
    std::vector<Figure> made;
    for (const int figure : figures)
        made.push_back(figure == 2   ? figure_2(runs)
                       : figure == 3 ? figure_3(runs)
                       : figure == 4 ? figure_4(runs)
                                     : figure_5(runs));
    return made;
}

}  // namespace reproduce
