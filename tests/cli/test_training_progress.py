"""Training events on the terminal."""

from protoadapt.cli.progress import clock, epoch_line, training_progress
from protoadapt.training import Event

RECORD = {"epoch": 3, "step": 30, "loss": 1.5, "ce": 1.25, "hct": 0.25, "accuracy": 71.23, "lr": 0.1}
RECORD |= {"images_per_second": 9100.4, "seconds": 12.0}
SCORES = {"val_cipa_1": 72.1, "val_cipa_5": 81.351, "val_protonet_1": 60.0, "val_protonet_5": 79.0, "val_score": 76.7}


def test_an_epoch_is_one_line():
    plain = "epoch 3/40  ce 1.250  hct 0.250  base 71.2 %  9,100 images/s  3:12 left"
    assert epoch_line(RECORD, 40, 192.4) == plain
    validated = plain + "  |  validation  cipa 72.10 / 81.35  protonet 60.00 / 79.00"
    assert epoch_line(RECORD | SCORES, 40, 192.4) == validated


def test_a_log_file_gets_plain_lines_and_no_bar(capfd):
    with training_progress() as show:
        show(Event("note", 2, 40, 100, 900, text="resuming from step 20 (epoch 3)"))
        show(Event("epoch starts", 2, 40, 100, 900))
        for images in range(110, 200, 10):
            show(Event("step", 2, 40, images, 900))
        show(Event("epoch ends", 3, 40, 190, 900, RECORD, 192.0))
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == ["resuming from step 20 (epoch 3)", epoch_line(RECORD, 40, 192.0)]


def test_clock():
    assert [clock(seconds) for seconds in (0.4, 59, 61, 3661)] == ["0:00", "0:59", "1:01", "1:01:01"]
